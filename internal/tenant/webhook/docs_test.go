package webhook

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/flow"
)

// example returns the block of docs/use/webhooks.md in a language, from the text on.
func example(t *testing.T, language, from string) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/use/webhooks.md")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), from)
	require.True(t, found, from)
	block := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindStringSubmatch(rest)
	require.NotNil(t, block, language)
	return block[1]
}

// serve runs an example as a receiver and returns its address.
func serve(t *testing.T, secret, name, text string, command ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	file := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	argv := append(command, file)
	if name == "main.go" {
		binary := filepath.Join(t.TempDir(), "receiver")
		out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, file).CombinedOutput()
		require.NoError(t, err, "%s", out)
		argv = []string{binary}
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	_, port, _ := net.SplitHostPort(address)
	cmd.Env = append(os.Environ(), "SECRET="+secret, "PORT="+port)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { stop(); _ = cmd.Wait() })
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, 30*time.Second, 20*time.Millisecond)
	return "http://" + address
}

// The examples of the page accept what the service sends, during a rotation too, and refuse what
// another secret signs. What the page signs by hand passes them as well.
func TestExamplesOfThePageVerify(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	sign := example(t, "sh", "To try your receiver")
	for _, c := range []struct {
		language, from, file string
		command              []string
	}{
		{"go", "In Go", "main.go", nil},
		{"python", "In Python", "receiver.py", []string{"python3"}},
		{"javascript", "In Node", "receiver.js", []string{"node"}},
	} {
		t.Run(c.language, func(t *testing.T) {
			t.Parallel()
			o := &office{Service: o.another(t, o.db.Pool), testing: t, db: o.db, starts: o.starts}
			o.who = o.join(t)
			sec := newSecret()
			url := serve(t, sec.text, c.file, example(t, c.language, c.from), c.command...)
			w, err := o.Create(t.Context(), o.who, Draft{URL: url, Events: []string{"*"}, Enabled: true, Secret: &sec.text})
			require.NoError(t, err)
			attempt := func() int {
				id := o.emit(o.who, revoked())
				require.Eventually(t, func() bool { o.once(o.Service); return len(o.delivery(o.who, w, id).Made) > 0 }, 20*time.Second, 10*time.Millisecond)
				return o.delivery(o.who, w, id).Made[0].Code
			}
			require.Less(t, attempt(), 300)
			_, err = o.Rotate(t.Context(), o.who, w.ID, nil)
			require.NoError(t, err)
			require.Less(t, attempt(), 300, "the secret before signs too")
			_, err = o.Rotate(t.Context(), o.who, w.ID, nil)
			require.NoError(t, err)
			require.Equal(t, http.StatusUnauthorized, attempt(), "and the one before that no longer")

			for secret, want := range map[string]string{sec.text: "<nil>", newSecret().text: "exit status 22"} {
				cmd := exec.CommandContext(t.Context(), "bash", "-c", sign)
				cmd.Env = append(os.Environ(), "SECRET="+secret, "RECEIVER="+url)
				require.Equal(t, want, fmt.Sprint(cmd.Run()))
			}
		})
	}
}

// A secret that was rotated out signs for a day.
func TestOldSecretSignsForADay(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	r := newReceiver(t, nil)
	w := o.subscribe(o.who, r.URL, "*")
	rotated, err := o.Rotate(t.Context(), o.who, w.ID, nil)
	require.NoError(t, err)
	require.NotEqual(t, w.Secret, rotated.Secret)
	for _, want := range []int{2, 2, 1} {
		o.emit(o.who, revoked())
		o.once(o.Service)
		posts := r.posts()
		require.Len(t, strings.Fields(posts[len(posts)-1].header.Get("Webhook-Signature")), want)
		o.pass(overlap/2 + time.Minute)
	}
}

// What failed is delivered again, with the same id and bytes, and what the service did not send
// while the webhook was disabled too.
func TestFailedDeliveriesAreRecovered(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	gone := true
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		if gone {
			w.WriteHeader(http.StatusGone)
		}
	})
	w := o.subscribe(o.who, r.URL, "key.*")
	since := time.Now().Add(-time.Minute)
	first := o.emit(o.who, revoked())
	o.once(o.Service)
	missed := o.emit(o.who, revoked())
	o.once(o.Service)
	require.Equal(t, flow.DeliveryCancelled, o.delivery(o.who, w, missed).State)
	require.Len(t, r.posts(), 1)
	_, _, err := o.Recover(t.Context(), o.who, w.ID, since)
	requireCode(t, "CONFLICT", err)

	gone = false
	_, err = o.Update(t.Context(), o.who, w.ID, Change{Enabled: new(true)})
	require.NoError(t, err)
	n, more, err := o.Recover(t.Context(), o.who, w.ID, since)
	require.NoError(t, err)
	require.False(t, more)
	require.Equal(t, 2, n)
	o.once(o.Service)
	require.Len(t, r.posts(), 3)
	bodies := map[string]string{}
	for _, p := range r.posts()[1:] {
		bodies[p.header.Get("Webhook-Id")] = p.body
	}
	require.Equal(t, r.posts()[0].body, bodies[first])
	for _, id := range []string{first, missed} {
		require.Equal(t, flow.DeliveryDelivered, o.delivery(o.who, w, id).State)
	}

	again, err := o.Redeliver(t.Context(), o.who, w.ID, first)
	require.NoError(t, err)
	require.Equal(t, 3, again.Round)
	_, err = o.Redeliver(t.Context(), o.who, w.ID, first)
	requireCode(t, "CONFLICT", err)
	o.once(o.Service)
	require.Equal(t, first, r.posts()[3].header.Get("Webhook-Id"))
	_, err = o.Redeliver(t.Context(), o.who, w.ID, "evt_unknown")
	requireCode(t, "DELIVERY_NOT_FOUND", err)
}

// A test reaches its webhook only, once, and disables nothing.
func TestTestEventReachesOneWebhook(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	other := newReceiver(t, nil)
	w := o.subscribe(o.who, r.URL, "action.*")
	o.subscribe(o.who, other.URL, "*")
	d, err := o.Test(t.Context(), o.who, w.ID)
	require.NoError(t, err)
	require.Equal(t, flow.DeliveryPending, d.State)
	o.once(o.Service)
	require.Len(t, r.posts(), 1)
	require.Empty(t, other.posts())
	require.Empty(t, o.starts.all())
	now, err := o.Get(t.Context(), o.who.TenantID, w.ID)
	require.NoError(t, err)
	require.True(t, now.Enabled)
}
