package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// mailed is a mail as the mailbox of the development server shows it.
type mailed struct{ To, Subject, Text string }

// mailbox waits until the address has so many mails, and returns them, the newest first.
func mailbox(t *testing.T, s *rig.Stack, to string, n int) (mails []mailed) {
	t.Helper()
	require.Eventually(t, func() bool {
		var all struct{ Mails []mailed }
		require.NoError(t, json.Unmarshal([]byte(page(t, http.MethodGet, s.APIURL+"/dev/mailbox?to="+url.QueryEscape(to), nil, http.StatusOK)), &all))
		mails = all.Mails
		return len(mails) >= n
	}, 30*time.Second, 20*time.Millisecond)
	require.Len(t, mails, n)
	return mails
}

// page calls as a browser does and returns the body.
func page(t *testing.T, method, address string, form url.Values, status int) string {
	t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(t.Context(), method, address, body)
	require.NoError(t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := rig.NewHTTP().Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, status, res.StatusCode, "%s", text)
	return string(text)
}

// press opens the link of a mail twice, as a scanner does, and then presses the button.
func press(t *testing.T, s *rig.Stack, m mailed, form url.Values, status int) (token string) {
	t.Helper()
	link := regexp.MustCompile(`http\S+`).FindString(m.Text)
	require.True(t, strings.HasPrefix(link, s.APIURL+"/account/"), m.Text)
	u, err := url.Parse(link)
	require.NoError(t, err)
	token = u.Query().Get("token")
	for range 2 {
		require.Contains(t, page(t, http.MethodGet, link, nil, http.StatusOK), token)
	}
	if form == nil {
		form = url.Values{}
	}
	form.Set("token", token)
	u.RawQuery = ""
	page(t, http.MethodPost, u.String(), form, status)
	return token
}

func TestAccountByMail(t *testing.T) {
	t.Parallel()
	s := sharedDev().For(t)
	email, next := "mail-"+uuid.NewString()+"@example.com", "next-"+uuid.NewString()+"@example.com"
	tenant := s.NewTenant(email)
	verified := func(c *rig.Client) bool {
		var me struct {
			User struct {
				EmailVerified bool `json:"email_verified"`
			}
		}
		a := c.Do(http.MethodGet, "/v1/me", nil)
		require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
		a.Data(t, &me)
		return me.User.EmailVerified
	}
	var verify mailed
	for _, m := range mailbox(t, s, email, mailsOf(t, s, email)) {
		if m.Subject == "Verify your email address" {
			verify = m
		}
	}
	require.False(t, verified(tenant.User))
	tokens := []string{press(t, s, verify, nil, http.StatusOK)}
	require.True(t, verified(tenant.User))
	press(t, s, verify, nil, http.StatusUnauthorized)

	had := mailsOf(t, s, email)
	forgot := tenant.User.With("", "").Do(http.MethodPost, "/v1/auth/forgot-password", map[string]string{"email": email})
	require.Equal(t, http.StatusAccepted, forgot.Status)
	tokens = append(tokens, press(t, s, mailbox(t, s, email, had+1)[0], url.Values{"new_password": {"a new horse"}}, http.StatusOK))
	require.Equal(t, http.StatusUnauthorized, tenant.User.Do(http.MethodGet, "/v1/me", nil).Status, "a reset ends all sessions")
	user := s.LogIn(email, "a new horse")

	asked := user.Do(http.MethodPost, "/v1/auth/change-email", map[string]string{"current_password": "a new horse", "email": next})
	require.Equal(t, http.StatusAccepted, asked.Status, "%s", asked.Body)
	tokens = append(tokens, press(t, s, mailbox(t, s, next, 1)[0], nil, http.StatusOK))
	user = s.LogIn(next, "a new horse")

	invited := uuid.NewString() + "@example.com"
	require.Equal(t, http.StatusCreated, user.Invite(invited, "member").Status)
	tokens = append(tokens, press(t, s, mailbox(t, s, invited, 1)[0], url.Values{"new_password": {"their horse"}, "name": {"Grace"}}, http.StatusOK))
	require.True(t, verified(s.LogIn(invited, "their horse")))

	// No token is anywhere but in the mail.
	logs := s.Logs()
	for _, token := range tokens {
		require.NotContains(t, logs, token)
		require.NotContains(t, string(user.Do(http.MethodGet, "/v1/audit?limit=500", nil).Body), token)
		found := 0
		require.NoError(t, filepath.WalkDir(filepath.Join(s.Dir, "data", "postgres"), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil //nolint:nilerr // files come and go
			}
			if raw, err := os.ReadFile(path); err == nil && strings.Contains(string(raw), token) {
				found++
			}
			return nil
		}))
		require.Zero(t, found, "in the files of Postgres")
	}
}

// mailsOf returns how many mails the address has got, once none waits to be sent.
func mailsOf(t *testing.T, s *rig.Stack, to string) (n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		var waiting int
		query(t, s, &waiting, "select count(*) from mails where address = $1 and ended_at is null", to)
		query(t, s, &n, "select count(*) from mails where address = $1 and outcome = 'sent'", to)
		return waiting == 0 && n > 0
	}, 30*time.Second, 20*time.Millisecond)
	return n
}

// query reads one value as the owner of the database.
func query(t *testing.T, s *rig.Stack, into any, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.DatabaseURL)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	require.NoError(t, conn.QueryRow(t.Context(), sql, args...).Scan(into))
}
