package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// verbKind is what a verb allows to be repeated.
type verbKind string

const (
	read verbKind = "read"
	// plainWrite is a write whose provider knows no idempotency key.
	plainWrite verbKind = "write"
	// keyedWrite is a write whose provider takes an idempotency key.
	keyedWrite verbKind = "keyed"
)

// verbOf names the verb of a kind in the document of the faulty provider.
var verbOf = map[verbKind]string{read: "get_thing", plainWrite: "create_thing", keyedWrite: "create_keyed_thing"}

func faultyDocument() json.RawMessage {
	args := []string{"fault", "id"}
	return document(bearer(),
		operation{method: http.MethodGet, path: "/things", id: "get_thing", args: args},
		operation{method: http.MethodPost, path: "/things", id: "create_thing", args: args},
		operation{method: http.MethodPost, path: "/keyed", id: "create_keyed_thing", args: args, runtime: map[string]any{"idempotency": "header:Idempotency-Key"}},
	)
}

// faulty is a provider that misbehaves on the wire as the call asks it to.
type faulty struct {
	t     *testing.T
	l     net.Listener
	other string // another host, for redirects

	mu       sync.Mutex
	attempts map[string]int                 // requests read whole, by id
	effects  map[string]map[string]struct{} // by id: each write has one, one with a key once per key
	reused   map[string]bool                // ids whose request came on a connection that had carried one
	hits     int                            // connections accepted
	conns    map[net.Conn]struct{}
}

func newFaulty(t *testing.T, other string, serve func(f *faulty, c net.Conn)) *faulty {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := &faulty{
		t: t, l: l, other: other, attempts: map[string]int{}, effects: map[string]map[string]struct{}{},
		reused: map[string]bool{}, conns: map[net.Conn]struct{}{},
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.hits++
			f.conns[c] = struct{}{}
			f.mu.Unlock()
			serving.Go(func() { serve(f, c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		f.mu.Lock()
		for c := range f.conns {
			c.Close()
		}
		f.mu.Unlock()
		serving.Wait()
	})
	return f
}

func (f *faulty) base() string { return "http://" + f.l.Addr().String() }

// resetAtOnce ends a connection with a reset as soon as a request begins to arrive,
// before it is read. Any sooner, and the caller may see a dial that failed.
func resetAtOnce(_ *faulty, c net.Conn) {
	_, _ = bufio.NewReader(c).Peek(1)
	reset(c)
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // closing sends RST
	}
	_ = c.Close()
}

// obey reads requests and does with each what its argument fault says.
func obey(f *faulty, c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for n := 0; ; n++ {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		fault, id := faultOf(r, body)
		attempt := f.note(r, id, fault, n > 0)
		if !f.answer(c, fault, id, attempt) {
			return
		}
	}
}

func faultOf(r *http.Request, body []byte) (fault, id string) {
	if r.Method == http.MethodGet {
		return r.URL.Query().Get("fault"), r.URL.Query().Get("id")
	}
	var args struct{ Fault, ID string }
	_ = json.Unmarshal(body, &args)
	return args.Fault, args.ID
}

// note counts the request, and its effect where the fault is not a refusal.
func (f *faulty) note(r *http.Request, id, fault string, kept bool) (attempt int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.attempts[id]++
	attempt = f.attempts[id]
	f.reused[id] = f.reused[id] || kept
	if r.Method == http.MethodGet || refuses(fault, attempt) {
		return attempt
	}
	if f.effects[id] == nil {
		f.effects[id] = map[string]struct{}{}
	}
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		key = fmt.Sprintf("attempt %d", attempt)
	}
	f.effects[id][key] = struct{}{}
	return attempt
}

// refuses reports whether the provider does nothing at this attempt.
func refuses(fault string, attempt int) bool {
	switch fault {
	case "429 for a second":
		return attempt <= 2
	case "429 after an effect", "404 after an effect", "409 after an effect", "409 and then done", "500 after an effect":
		return attempt > 1
	case "429 for an hour", "404", "redirect elsewhere", "redirect to itself":
		return true
	}
	return false
}

func (f *faulty) seen(id string) (attempts, effects int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.attempts[id], len(f.effects[id])
}

// keptDropped is the fault of a provider that resets a connection on which it has answered before.
const keptDropped = "kept connection dropped"

// kept reports whether a request for the id came on a connection on which one was answered before.
func (f *faulty) kept(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reused[id]
}

const fine = `{"done":true}`

// answer writes the answer and reports whether the connection goes on.
func (f *faulty) answer(c net.Conn, fault, id string, attempt int) bool {
	respond := func(status, contentType, body string, headers ...string) bool {
		head := append(headers, "Content-Type: "+contentType, "Content-Length: "+strconv.Itoa(len(body)))
		_, err := io.WriteString(c, "HTTP/1.1 "+status+"\r\n"+strings.Join(head, "\r\n")+"\r\n\r\n"+body)
		return err == nil
	}
	switch fault {
	case "reset after reading", keptDropped:
		reset(c)
		return false
	case "hang":
		_, _ = io.Copy(io.Discard, c) // until the caller closes
		return false
	case "cut body":
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"done\":")
		return false
	case "429 for a second":
		if attempt <= 2 {
			return respond("429 Too Many Requests", "application/json", `{"error":"slow down"}`, "Retry-After: 1")
		}
	case "429 after an effect":
		if attempt == 1 {
			reset(c)
			return false
		}
		return respond("429 Too Many Requests", "application/json", `{"error":"slow down"}`, "Retry-After: 3600")
	case "404 after an effect", "409 after an effect", "409 and then done", "500 after an effect":
		switch {
		case attempt == 1:
			reset(c)
			return false
		case fault == "409 and then done" && attempt > 3:
			return respond("200 OK", "application/json", fine)
		}
		return respond(fault[:3]+" After", "application/json", `{"error":"after an effect"}`)
	case "502", "504":
		return respond(fault+" Gateway", "application/json", `{"error":"the server behind it is silent"}`)
	case "429 for an hour":
		return respond("429 Too Many Requests", "application/json", `{"error":"slow down"}`, "Retry-After: 3600")
	case "500":
		return respond("500 Internal Server Error", "application/json", `{"error":"oops"}`)
	case "404":
		return respond("404 Not Found", "application/json", `{"error":"no such thing"}`)
	case "wrong content type":
		return respond("200 OK", "text/html", "<p>done</p>")
	case "5 MB":
		return respond("200 OK", "application/json", `{"data":"`+strings.Repeat("x", 5<<20)+`"}`)
	case "broken JSON":
		return respond("200 OK", "application/json", `{"done":`)
	case "redirect elsewhere":
		return respond("302 Found", "text/plain", "over there", "Location: "+f.other+"/elsewhere")
	case "redirect to itself":
		if attempt == 1 {
			return respond("302 Found", "text/plain", "here", "Location: /things?id="+id)
		}
	}
	return respond("200 OK", "application/json", fine)
}

// outcome is what a caller is told and what the provider saw.
type outcome struct {
	http      int
	code      string // "" for a success
	status    string // of the execution
	retryable bool
	// attempts and effects are how many requests the provider read, and how many
	// effects they had; -1 where net/http repeats a read on its own besides.
	attempts, effects int
	// free: nothing took effect, so a repeat under the same id tries again.
	free bool
}

// faultCase is one row of the table in docs/use/runs-and-the-fence.md.
type faultCase struct {
	fault string
	want  map[verbKind]outcome
}

func faultTable() []faultCase {
	ok := func(attempts, effects int) outcome {
		return outcome{200, "", "executed", false, attempts, effects, false}
	}
	unknown := func(attempts, effects int) outcome {
		return outcome{504, "OUTCOME_UNKNOWN", "outcome_unknown", false, attempts, effects, false}
	}
	provider := func(attempts, effects int) outcome {
		return outcome{502, "PROVIDER_ERROR", "failed", false, attempts, effects, false}
	}
	timeout := outcome{504, "PROVIDER_TIMEOUT", "failed", false, 5, 0, false}
	unreached := outcome{502, "PROVIDER_ERROR", "failed", true, 0, 0, true}
	limited := outcome{422, "PROVIDER_REJECTED", "failed", true, 1, 0, true}
	rejected := outcome{422, "PROVIDER_REJECTED", "failed", false, 1, 0, false}
	all := func(o outcome) map[verbKind]outcome {
		return map[verbKind]outcome{read: o, plainWrite: o, keyedWrite: o}
	}
	return []faultCase{
		{"connection refused", all(unreached)},
		{"reset before reading", map[verbKind]outcome{read: provider(0, 0), plainWrite: unknown(0, 0), keyedWrite: unknown(0, 0)}},
		{"reset after reading", map[verbKind]outcome{read: provider(-1, 0), plainWrite: unknown(1, 1), keyedWrite: unknown(5, 1)}},
		{"hang", map[verbKind]outcome{read: timeout, plainWrite: unknown(1, 1), keyedWrite: unknown(5, 1)}},
		{keptDropped, map[verbKind]outcome{read: provider(-1, 0), plainWrite: unknown(1, 1), keyedWrite: unknown(5, 1)}},
		{"cut body", map[verbKind]outcome{read: provider(5, 0), plainWrite: ok(1, 1), keyedWrite: ok(1, 1)}},
		{"wrong content type", map[verbKind]outcome{read: ok(1, 0), plainWrite: ok(1, 1), keyedWrite: ok(1, 1)}},
		{"broken JSON", map[verbKind]outcome{read: provider(1, 0), plainWrite: ok(1, 1), keyedWrite: ok(1, 1)}},
		{"5 MB", map[verbKind]outcome{read: provider(1, 0), plainWrite: ok(1, 1), keyedWrite: ok(1, 1)}},
		{"429 for a second", map[verbKind]outcome{read: ok(3, 0), plainWrite: ok(3, 1), keyedWrite: ok(3, 1)}},
		{"429 for an hour", all(limited)},
		{"429 after an effect", map[verbKind]outcome{keyedWrite: unknown(2, 1)}},
		{"404 after an effect", map[verbKind]outcome{keyedWrite: unknown(2, 1)}},
		{"500 after an effect", map[verbKind]outcome{keyedWrite: unknown(5, 1)}},
		{"409 after an effect", map[verbKind]outcome{keyedWrite: unknown(5, 1)}},
		{"409 and then done", map[verbKind]outcome{keyedWrite: ok(4, 1)}},
		{"502", map[verbKind]outcome{read: provider(5, 0), plainWrite: unknown(1, 1), keyedWrite: unknown(5, 1)}},
		{"504", map[verbKind]outcome{read: provider(5, 0), plainWrite: unknown(1, 1), keyedWrite: unknown(5, 1)}},
		{"404", all(rejected)},
		{"500", map[verbKind]outcome{read: provider(5, 0), plainWrite: provider(1, 1), keyedWrite: provider(5, 1)}},
		{"redirect elsewhere", all(provider(1, 0))},
		{"redirect to itself", map[verbKind]outcome{read: ok(2, 0), plainWrite: provider(1, 0), keyedWrite: provider(1, 0)}},
	}
}

// TestProviderFaultHasItsDocumentedOutcome lets a provider fail in every way at every
// kind of verb. Each has its documented outcome, and none a second effect.
func TestProviderFaultHasItsDocumentedOutcome(t *testing.T) {
	t.Parallel()
	s := rig.Dev(t, "PROVIDER_TIMEOUT=5s") // longer than a busy machine needs for the largest answer
	tenant := newTenant(s)
	var elsewhere sync.Map
	other := rig.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { elsewhere.Store(r.URL.String(), true) }))
	main := newFaulty(t, other, obey)
	connect := func(slug, base string) string {
		tenant.Connect(t, slug, base, faultyDocument(), "bearer", map[string]string{"token": "secret-token"})
		return slug
	}
	refusing, resetting := "http://"+rig.FreeAddress(t), newFaulty(t, other, resetAtOnce)
	var probes []*probe
	for i, c := range faultTable() {
		for kind, want := range c.want {
			p := &probe{name: c.fault + "/" + string(kind), fault: c.fault, want: want, f: main, id: ids(1)[0]}
			base := main.base()
			switch c.fault {
			case "connection refused":
				base = refusing
			case "reset before reading":
				base = resetting.base()
			case keptDropped:
				// An address of its own, so that its one connection is the one kept.
				p.f = newFaulty(t, other, obey)
				base = p.f.base()
			}
			// A provider of its own, so that the failures of others do not open its circuit.
			p.verb = connect(fmt.Sprintf("faulty-%d-%s", i, kind), base) + ":" + verbOf[kind]
			if c.fault == keptDropped {
				requireRun(t, tenant.Runtime.Run(p.verb, map[string]string{"id": "warm"}, ""))
			}
			probes = append(probes, p)
		}
	}
	// Nearly all of it is waiting, so all of it is done at once.
	var all sync.WaitGroup
	for _, p := range probes {
		all.Go(func() { p.run(tenant) })
	}
	all.Wait()
	for _, p := range probes {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.check(t)
		})
	}
	elsewhere.Range(func(at, _ any) bool {
		t.Errorf("a redirect to another host was followed: %s", at)
		return true
	})
}

// probe is one call of a faulty provider and its repeat.
type probe struct {
	name, fault, verb, id string
	want                  outcome
	f                     *faulty

	first, stored, again    rig.Answer
	attempts, effects       int // after the first call
	allAttempts, allEffects int // after the repeat
}

func (p *probe) run(tenant *rig.Tenant) {
	call := func() rig.Answer {
		return tenant.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run",
			map[string]any{"verb": p.verb, "args": map[string]string{"fault": p.fault, "id": p.id}, "execution_id": p.id}, "Prefer: wait=60")
	}
	p.first = call()
	// A write takes no connection that was idle for long. On a busy machine that may be each of a few.
	for range 10 {
		if p.fault != keptDropped || p.f.kept(p.id) {
			break
		}
		p.id = ids(1)[0]
		tenant.Runtime.Run(p.verb, map[string]string{"id": "warm"}, "")
		p.first = call()
	}
	p.stored = tenant.Runtime.Do(http.MethodGet, "/v1/executions/"+p.id, nil)
	p.attempts, p.effects = p.f.seen(p.id)
	p.again = call()
	p.allAttempts, p.allEffects = p.f.seen(p.id)
}

func (p *probe) check(t *testing.T) {
	t.Helper()
	requireOutcome(t, p.first, p.want)
	var e execution
	p.stored.Data(t, &e)
	require.Equal(t, p.want.status, e.Status)
	if p.want.attempts >= 0 {
		require.Equal(t, p.want.attempts, p.attempts, "requests that the provider read")
	}
	require.Equal(t, p.want.effects, p.effects, "effects at the provider")
	if p.fault == keptDropped {
		require.True(t, p.f.kept(p.id), "the request came on a kept connection")
	}
	// A repeat is told the same, and has no effect of its own.
	requireOutcome(t, p.again, p.want)
	require.Equal(t, p.want.effects, p.allEffects, "effects after a repeat")
	if p.want.free {
		require.Equal(t, 2*p.attempts, p.allAttempts, "a repeat tries again")
	} else {
		require.Equal(t, p.attempts, p.allAttempts, "a repeat calls nothing")
	}
}

func requireOutcome(t *testing.T, a rig.Answer, want outcome) {
	t.Helper()
	require.NoError(t, a.Err)
	require.Equal(t, want.http, a.Status, "%s", a.Body)
	e := a.Envelope(t)
	if want.code == "" {
		require.True(t, e.Success)
		return
	}
	require.Equal(t, want.code, e.Error.Code, "%s", a.Body)
	require.Equal(t, want.retryable, e.Error.Retryable, "%s", a.Body)
	require.NotEmpty(t, e.Error.RequestID)
	require.NotEmpty(t, e.Error.ExecutionID)
	require.NotContains(t, string(a.Body), "127.0.0.1", "the provider's address is not the caller's business")
}
