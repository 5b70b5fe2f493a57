package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/jackc/pgx/v5"
	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// What follows a change: the deliveries of its event, mail, and the erasure of a customer. The
// service is killed at each step of it.

// Points of a delivery, in the order of its life. At inDelivery the receiver has read the body.
const inDelivery = "in_delivery"

func deliveryPoints() []string {
	return []string{"event_sent", "delivery_claimed", inDelivery, "delivery_answered", "delivery_handed_over", "delivery_recorded"}
}

// Points of a mail. At inMail the server has read it.
const inMail = "in_mail"

func mailPoints() []string { return []string{"mail_taken", inMail, "mail_accepted"} }

// erasurePoints returns the points of the strike number n of a victim. A worker erases two customers
// at a time, so only two can be stopped in it.
func erasurePoints(n int) []string {
	pairs := [][]string{{"in_erase_executions", "in_erase_end"}, {"in_erase_events", "after_erase"}}
	return append([]string{"erasure_asked"}, pairs[n%len(pairs)]...)
}

// modes are how a receiver answers: well, or 500 to the first attempt.
func modes() []string { return []string{"well", "fails"} }

// tellLimit is how long after the last restart all may take: a receiver's first answer is a failure
// and the next attempt follows a minute later, or a lease of 30 s ends and then that minute begins.
const tellLimit = 4 * time.Minute

// herald runs the service for changes that others are told of.
type herald struct {
	*crew

	events *rig.Client // may send events
	secret string
	mails  *postOffice

	mu sync.Mutex
	// bodies are what the receiver got, by the id of the webhook; failed are those whose first
	// attempt it has answered with 500. unverified counts signatures that do not verify.
	bodies     map[string][]string
	failed     map[string]bool
	unverified int
	// changes were made, and named in the events by these ids.
	changes []string
	// addresses were signed up.
	addresses []string
	// customers were erased, by their ids.
	customers []string
	// strikes counts those of each victim.
	strikes map[string]int
}

func newHerald(t *testing.T) *herald {
	t.Helper()
	h := &herald{mails: openPostOffice(t), bodies: map[string][]string{}, failed: map[string]bool{}, strikes: map[string]int{}}
	h.crew = muster(t, "chaos", "SMTP_URL=smtp://"+h.mails.address+"?tls=none", "MAIL_FROM=no-reply@example.com", "PUBLIC_URL=https://runtime.example.com")
	h.gate.callOf = subjectInDatabase(h.stack.DatabaseURL)
	h.mails.use(h.gate)
	h.events = h.tenant.User.With(h.tenant.User.NewKey(t, "events:send").Key, "")
	h.events.HTTP = rig.NewHTTP()
	h.events.HTTP.Timeout = callLimit
	h.secret = "whsec_" + "c2VjcmV0IG9mIHRoZSBjcmFzaCB0ZXN0cw=="
	url := rig.Serve(t, http.HandlerFunc(h.receive))
	// A webhook for each point, so that a delivery that is stopped keeps no place from another.
	for _, point := range append(deliveryPoints(), anywhere) {
		for _, mode := range modes() {
			h.subscribe(url, "custom."+point+"."+mode)
		}
	}
	h.subscribe(url, "action.executed")
	return h
}

func (h *herald) subscribe(url, events string) {
	h.t.Helper()
	a := h.tenant.User.Do(http.MethodPost, "/v1/webhooks", map[string]any{"url": url, "events": []string{events}, "secret": h.secret})
	require.Equal(h.t, http.StatusCreated, a.Status, "%s", a.Body)
}

// subjectInDatabase names what a failpoint is about, by what its row says.
func subjectInDatabase(url string) func(ctx context.Context, point, run string) string {
	return func(ctx context.Context, _, id string) (subject string) {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return "" // the database was killed, and with it all that is to be stopped
		}
		defer conn.Close(ctx)
		if conn.QueryRow(ctx, `SELECT coalesce((SELECT coalesce(source_id, execution_id) FROM events WHERE id = $1),
			(SELECT address FROM mails WHERE id = $1), $1::text)`, id).Scan(&subject) != nil {
			return ""
		}
		return subject
	}
}

// receive is the receiver of all webhooks.
func (h *herald) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender was killed
	}
	verifier, err := standard.NewWebhook(h.secret)
	if err == nil {
		err = verifier.Verify(body, r.Header)
	}
	var e struct {
		ID          string
		ExecutionID string `json:"execution_id"`
		Event       string
	}
	_ = json.Unmarshal(body, &e) // what it is no JSON of is no body of ours, which is judged later
	id := r.Header.Get("Webhook-Id")
	h.mu.Lock()
	h.bodies[id] = append(h.bodies[id], string(body))
	if err != nil {
		h.unverified++
	}
	fails := strings.HasSuffix(e.Event, ".fails") && !h.failed[id]
	h.failed[id] = h.failed[id] || fails
	h.mu.Unlock()
	h.gate.pass(r.Context(), inDelivery, e.ID+e.ExecutionID)
	if fails {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// insist repeats a call until the service has answered it.
func (h *herald) insist(do func() rig.Answer) {
	for h.t.Context().Err() == nil {
		if a := do(); a.Err == nil && a.Status < http.StatusInternalServerError {
			return
		}
		pause(h.t.Context(), callPause)
	}
}

// A telling is a change under way that others are told of.
type telling struct {
	subject string // what its failpoints are about
	begin   func()
}

// sent is a custom event of the type, which is sent until the service has it.
func (h *herald) sent(kind string) telling {
	id := h.newChange()
	return telling{id, func() {
		h.insist(func() rig.Answer {
			return h.events.Do(http.MethodPost, "/v1/events", map[string]any{"id": id, "type": kind, "data": map[string]string{"change": id}})
		})
	}}
}

// ran is a call, which is repeated until it has ended.
func (h *herald) ran() telling {
	id := h.newChange()
	call := &caller{client: h.tenant.Runtime, observation: observation{id: id, verb: verbKeyed}}
	return telling{id, func() { call.callUntilTerminal(h.t.Context()) }}
}

func (h *herald) newChange() (id string) {
	h.serial++
	id = fmt.Sprintf("change-%d", h.serial)
	h.changes = append(h.changes, id)
	return id
}

// signedUp is a sign-up with an address of its own, which gets a mail.
func (h *herald) signedUp() telling {
	h.serial++
	address := fmt.Sprintf("person-%d@example.com", h.serial)
	h.addresses = append(h.addresses, address)
	c := &rig.Client{Base: h.stack.APIURL, HTTP: h.events.HTTP}
	return telling{address, func() {
		h.insist(func() rig.Answer {
			return c.Do(http.MethodPost, "/v1/auth/signup", map[string]string{"email": address, "password": rig.Password})
		})
	}}
}

// erased is the deletion of a customer with calls and events about them.
func (h *herald) erased() telling {
	h.t.Helper()
	h.serial++
	name := fmt.Sprintf("canary-%d", h.serial)
	var made struct{ ID string }
	h.tenant.User.Do(http.MethodPost, "/v1/customers", map[string]any{"external_id": name, "name": name, "email": name + "@example.com"}).Data(h.t, &made)
	for n := range 2 {
		id := fmt.Sprintf("of-%s-%d", made.ID, n)
		a := h.tenant.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run", map[string]any{
			"verb": verbKeyed, "args": map[string]string{"id": id, "filler": name}, "execution_id": id, "metadata": map[string]string{"customer_id": name},
		})
		require.Equal(h.t, http.StatusOK, a.Status, "%s", a.Body)
	}
	h.customers = append(h.customers, made.ID)
	return telling{made.ID, func() {
		h.insist(func() rig.Answer { return h.tenant.User.Do(http.MethodDelete, "/v1/customers/"+made.ID, nil) })
	}}
}

// stop begins a change and stops it at the point.
func (h *herald) stop(point string, c telling) {
	h.t.Helper()
	h.gate.arm(point, c.subject)
	go c.begin()
	h.gate.await(h.t, point, c.subject)
}

// strike stops changes at every point, kills the victims while others are under way freely, and
// restarts them.
func (h *herald) strike(free int, victims ...string) {
	h.t.Helper()
	began, names := time.Now(), strings.Join(victims, "+")
	n := h.strikes[names]
	h.strikes[names]++
	for _, point := range erasurePoints(n) {
		h.stop(point, h.erased())
	}
	for _, point := range deliveryPoints() {
		for _, mode := range modes() {
			if point == "delivery_handed_over" && mode == "well" {
				continue // a delivery that succeeds is not handed over
			}
			h.stop(point, h.sent("custom."+point+"."+mode))
		}
	}
	h.stop(inDelivery, h.ran())
	// A process sends the mails that it has taken before it takes others, so only one can be stopped.
	h.stop(mailPoints()[n%len(mailPoints())], h.signedUp())
	go h.signedUp().begin()
	for n := range free { // others are under way anywhere
		var c telling
		if n%4 == 0 {
			c = h.ran()
		} else {
			c = h.sent("custom." + anywhere + "." + modes()[n%2])
		}
		go func() {
			pause(h.t.Context(), rand.N(freeRun))
			c.begin()
		}()
	}
	pause(h.t.Context(), rand.N(freeRun))
	for _, victim := range victims {
		h.kill(victim)
	}
	h.gate.open()
	pause(h.t.Context(), moment)
	for _, victim := range victims {
		h.restart(victim)
	}
	h.stack.AwaitAPI()
	h.requireAlive()
	h.t.Logf("%s: struck within %.1fs", names, time.Since(began).Seconds())
}

// told waits until everybody was told of everything, and returns what is wrong.
func (h *herald) told() (broken []string) {
	h.t.Helper()
	ctx := h.t.Context()
	conn, err := pgx.Connect(ctx, h.stack.DatabaseURL)
	require.NoError(h.t, err)
	defer conn.Close(ctx)
	number := func(sql string, args ...any) (n int) {
		require.NoError(h.t, conn.QueryRow(ctx, sql, args...).Scan(&n), sql)
		return n
	}
	began := time.Now()
	open := func() map[string]int {
		return map[string]int{
			"changes without an event": len(h.changes) - number(`SELECT count(DISTINCT coalesce(source_id, execution_id)) FROM events WHERE source_id = ANY ($1)
				OR type = 'action.executed' AND execution_id = ANY ($1)`, h.changes),
			"deliveries":               number(`SELECT count(*) FROM webhook_deliveries d JOIN events e ON e.id = d.event_id WHERE d.status <> 'delivered'`),
			"addresses without a mail": len(h.addresses) - number(`SELECT count(DISTINCT address) FROM mails WHERE outcome = 'sent' AND address = ANY ($1)`, h.addresses),
			"mails":                    number(`SELECT count(*) FROM mails WHERE ended_at IS NULL`),
			"customers":                number(`SELECT count(*) FROM customers`),
			"erasures":                 number(`SELECT count(*) FROM customer_erasures WHERE completed_at IS NULL`),
		}
	}
	var left map[string]int
	for time.Since(began) < tellLimit {
		if left = open(); slices.Max(slices.Collect(maps.Values(left))) == 0 {
			break
		}
		pause(ctx, time.Second)
	}
	h.t.Logf("%d changes, %d mails and %d erasures, looked at %.0fs after the last restart: left is %v", len(h.changes), len(h.addresses), len(h.customers), time.Since(began).Seconds(), left)
	for what, n := range left {
		if n != 0 {
			broken = append(broken, fmt.Sprintf("%d %s left", n, what))
		}
	}
	broken = append(broken, h.deliveredAtLeastOnce(conn)...)
	broken = append(broken, h.mails.violations(h.addresses)...)
	for _, id := range h.customers {
		broken = append(broken, h.erasureViolations(id, number)...)
	}
	// Arguments of calls remain in the audit trail, masked; records about customers have no values.
	for _, rows := range []string{
		"customers row", "customer_identifiers row", "customer_terms row", "customer_erasures row", "runs row", "approvals row", "events row",
		"(SELECT * FROM audit_records WHERE subject_type = 'customer') row",
	} {
		if n := number(`SELECT count(*) FROM ` + rows + ` WHERE row::text LIKE '%canary-%'`); n != 0 {
			broken = append(broken, fmt.Sprintf("%d of %s have a name of an erased customer", n, rows))
		}
	}
	return broken
}

// deliveredAtLeastOnce compares what the receiver got with the events of the changes.
func (h *herald) deliveredAtLeastOnce(conn *pgx.Conn) (broken []string) {
	h.t.Helper()
	rows, err := conn.Query(h.t.Context(), `SELECT coalesce(source_id, execution_id), 'evt_' || id, type FROM events WHERE source_id = ANY ($1)
		OR type = 'action.executed' AND execution_id = ANY ($1)`, h.changes)
	require.NoError(h.t, err)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unverified > 0 {
		broken = append(broken, fmt.Sprintf("%d signatures do not verify", h.unverified))
	}
	var change, id, kind string
	events := map[string]int{}
	twice := 0
	_, err = pgx.ForEachRow(rows, []any{&change, &id, &kind}, func() error {
		events[change]++
		got := h.bodies[id]
		switch {
		case len(got) == 0:
			broken = append(broken, fmt.Sprintf("%s (%s) was not delivered", change, kind))
			return nil
		case len(slices.Compact(slices.Clone(got))) != 1:
			broken = append(broken, fmt.Sprintf("%s (%s) was delivered with other bytes: %q", change, kind, got))
		case !strings.Contains(got[0], `"event_id":"`+id+`"`) || !strings.Contains(got[0], `"`+change+`"`):
			broken = append(broken, fmt.Sprintf("%s (%s) was delivered as %s", change, kind, got[0]))
		}
		if len(got) > 1 {
			twice++
		}
		return nil
	})
	require.NoError(h.t, err)
	for _, change := range h.changes {
		if events[change] != 1 {
			broken = append(broken, fmt.Sprintf("%s has %d events", change, events[change]))
		}
	}
	h.t.Logf("%d of %d deliveries were made more than once, those that were answered with 500 among them", twice, len(h.changes))
	return broken
}

// erasureViolations says what is wrong with the erasure of a customer.
func (h *herald) erasureViolations(id string, number func(string, ...any) int) (broken []string) {
	h.t.Helper()
	var e struct {
		Status string
		Erased []struct {
			Kind  string
			Count int
		}
	}
	h.tenant.User.Do(http.MethodGet, "/v1/customers/"+id+"/erasure", nil).Data(h.t, &e)
	counts := map[string]int{}
	for _, kind := range e.Erased {
		counts[kind.Kind] = kind.Count
	}
	// The events of a call are erased with it.
	if e.Status != "completed" || counts["executions"] != 2 || counts["events"] < 1 {
		broken = append(broken, fmt.Sprintf("%s: %s with %v", id, e.Status, counts))
	}
	for sql, what := range map[string]string{
		`SELECT count(*) FROM events WHERE type = 'customer.erased' AND customer_id = $1`:                    "events of the end",
		`SELECT count(*) FROM audit_records WHERE action = 'customer.erasure_completed' AND subject_id = $1`: "audit records of the end",
		`SELECT 1 + count(*) FROM events WHERE type <> 'customer.erased' AND customer_id = $1`:               "(one less) other events",
	} {
		if n := number(sql, id); n != 1 {
			broken = append(broken, fmt.Sprintf("%s has %d %s", id, n, what))
		}
	}
	return broken
}

// A postOffice is the mail server. It lives in the test's process and survives every kill.
type postOffice struct {
	address string
	gate    *gate

	mu sync.Mutex
	// links are those of the mails, by Message-ID; to is who got them.
	links, to map[string][]string
}

func openPostOffice(t *testing.T) *postOffice {
	t.Helper()
	o := &postOffice{links: map[string][]string{}, to: map[string][]string{}}
	srv := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &letterbox{office: o}, nil }))
	srv.Domain = "localhost"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	o.address = l.Addr().String()
	return o
}

// use has the gate stop mails.
func (o *postOffice) use(g *gate) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gate = g
}

// letterbox is one connection to the post office.
type letterbox struct {
	office *postOffice
	to     string
}

func (b *letterbox) Reset()                               { b.to = "" }
func (b *letterbox) Logout() error                        { return nil }
func (b *letterbox) Mail(string, *smtp.MailOptions) error { return nil }
func (b *letterbox) Rcpt(to string, _ *smtp.RcptOptions) error {
	b.to = to
	return nil
}

var (
	messageID = regexp.MustCompile(`(?im)^Message-ID: *(\S+)`)
	linkToken = regexp.MustCompile(`token=\S+`)
)

// Data takes a mail.
func (b *letterbox) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	text := strings.ReplaceAll(strings.ReplaceAll(string(raw), "=\r\n", ""), "=3D", "=") // quoted-printable
	id := messageID.FindStringSubmatch(text)
	if id == nil {
		return fmt.Errorf("a mail without an id: %s", text)
	}
	o := b.office
	o.mu.Lock()
	o.links[id[1]] = append(o.links[id[1]], linkToken.FindString(text))
	o.to[b.to] = append(o.to[b.to], id[1])
	g := o.gate
	o.mu.Unlock()
	if g != nil {
		g.pass(context.Background(), inMail, b.to)
	}
	return nil
}

// violations says which of the addresses got no mail, and whose copies differ.
func (o *postOffice) violations(addresses []string) (broken []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, address := range addresses {
		if len(o.to[address]) == 0 {
			broken = append(broken, address+" got no mail")
		}
	}
	for id, links := range o.links {
		if len(slices.Compact(slices.Clone(links))) != 1 {
			broken = append(broken, fmt.Sprintf("the copies of %s have the links %q", id, links))
		}
	}
	return broken
}

// Every part is killed once with changes, mails and erasures at every point, and others under way.
func TestKillsKeepNobodyFromBeingTold(t *testing.T) {
	t.Parallel()
	h := newHerald(t)
	const free = 15
	for _, victim := range append(victims(), victimWorker, victimAPI, victimPostgres, victimAPI) {
		h.strike(free, victim)
	}
	require.GreaterOrEqual(t, len(h.changes), 200)
	require.Empty(t, h.told())
}
