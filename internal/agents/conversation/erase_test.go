package conversation

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/agents/agentloop"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

// A session with a message that is answered, stands in line or waits for people stays until the
// message has ended, however old it is.
func TestOldSessionsAreErasedWhenNoMessageIsOpen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, state := range []State{Working, Queued, Waiting, Ended} {
		d.turn(d.tenant, nil, state, d.now.Add(-d.cfg.Keep-time.Minute))
	}
	young := d.turn(d.tenant, nil, Ended, d.now.Add(-d.cfg.Keep+time.Minute))
	require.NoError(t, d.EraseOld(t.Context()))
	require.Equal(t, 4, d.number("SELECT count(*) FROM conversations"))
	require.Equal(t, 3, d.number("SELECT count(*) FROM turns WHERE state <> 'ended'"))
	d.exec("UPDATE turns SET state = 'ended', finished_at = now()")
	require.NoError(t, d.EraseOld(t.Context()))
	require.Equal(t, 1, d.number("SELECT count(*) FROM conversations"))
	require.Equal(t, 1, d.number("SELECT count(*) FROM turns WHERE id = $1", young.ID))
}

// eraseOf erases the sessions of a customer once.
func (d *desk) eraseOf(customer uuid.UUID) (erased int64, waits bool) {
	d.t.Helper()
	require.NoError(d.t, d.d.DB.InTenant(d.t.Context(), d.tenant, func(tx pgx.Tx) (err error) {
		erased, waits, err = d.EraseOf(d.t.Context(), tx, d.tenant, []string{"their-own-id", customer.String()}, d.now, 10)
		return err
	}))
	return erased, waits
}

// The erasure of a customer waits for the customer's open messages. Nothing of anybody else goes.
func TestSessionsOfACustomerAreErasedWhenNoMessageIsOpen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	before := d.now.Add(-time.Minute)
	ann, bob := uuid.New(), uuid.New()
	for _, state := range []State{Working, Queued, Waiting, Ended} {
		d.turn(d.tenant, &ann, state, before)
	}
	others := []uuid.UUID{d.turn(d.tenant, &bob, Ended, before).ID, d.turn(d.tenant, nil, Ended, before).ID}
	late := d.turn(d.tenant, &ann, Ended, d.now.Add(time.Minute)).ID

	erased, waits := d.eraseOf(ann)
	require.EqualValues(t, 2, erased, "the sessions in which nothing is open")
	require.Zero(t, d.number("SELECT count(*) FROM turns WHERE id = $1", late), "one that came with the erasure is the customer's too")
	require.False(t, waits, "there may be more")
	for open := 3; open > 0; open-- {
		erased, waits = d.eraseOf(ann)
		require.Zero(t, erased)
		require.True(t, waits)
		require.Equal(t, open, d.number("SELECT count(*) FROM turns WHERE finished_at IS NULL AND message <> ''"), "the agent still needs it")
		d.exec("UPDATE turns SET state = 'ended', finished_at = now() WHERE id = (SELECT id FROM turns WHERE finished_at IS NULL ORDER BY id LIMIT 1)")
		erased, waits = d.eraseOf(ann)
		require.EqualValues(t, 1, erased)
		require.False(t, waits)
	}
	erased, waits = d.eraseOf(ann)
	require.Zero(t, erased)
	require.False(t, waits)
	require.Equal(t, 2, d.number("SELECT count(*) FROM turns WHERE id = ANY ($1)", others))
	require.Equal(t, 2, d.number("SELECT count(*) FROM turns"))
}

// writers are the customers that a desk's messages find, one after the other. between, where it is not
// nil, is called with each before the message is claimed.
type writers struct {
	Customers
	mu      sync.Mutex
	next    []uuid.UUID
	between func(uuid.UUID)
}

func (w *writers) Check(context.Context, actor.Actor, Request) error { return nil }

func (w *writers) Writer(context.Context, actor.Actor, Request) (*Writer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.next) == 0 {
		return nil, nil //nolint:nilnil // the message has no customer
	}
	id := w.next[0]
	if len(w.next) > 1 {
		w.next = w.next[1:]
	}
	if w.between != nil {
		w.between(id)
	}
	return &Writer{ID: id}, nil
}

// customer adds a customer, and erase deletes the record, as package customer does.
func (d *desk) customer() uuid.UUID {
	d.t.Helper()
	id := uuid.Must(uuid.NewV7())
	d.exec("INSERT INTO customers (id, tenant_id, metadata, tags, created_at, updated_at) VALUES ($1, $2, '{}', '{}', now(), now())", id, d.tenant)
	d.exec("INSERT INTO customer_identifiers (tenant_id, identifier, customer_id) VALUES ($2, 'id:' || $1::uuid::text, $1)", id, d.tenant)
	return id
}

func (d *desk) erase(customer uuid.UUID) { d.exec("DELETE FROM customers WHERE id = $1", customer) }

func (d *desk) message(session string) Request {
	return Request{AgentID: uuid.NewSHA1(d.tenant, nil), Message: "Hello", SessionID: session, Metadata: []byte(`{}`)}
}

func (d *desk) who() actor.Actor {
	return actor.Actor{Kind: actor.Key, TenantID: d.tenant, ID: uuid.New()}
}

// A customer may be erased after a message has found them and before it is claimed. Then nothing is
// written for that customer: the message is as one that came after the erasure.
func TestMessageWhoseCustomerIsErasedBeforeItsClaimWritesNothingForThem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		session string
		begun   bool // the session has a message of the customer
	}{"without a session": {"", false}, "in a new session": {"s", false}, "in a session of the customer": {"s", true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			ann, next := d.customer(), d.customer()
			w := &writers{next: []uuid.UUID{ann}}
			d.d.Customers = w
			before := 0
			if c.begun {
				_, err := d.Begin(t.Context(), d.who(), d.message(c.session))
				require.NoError(t, err)
				before = 1
			}
			w.next = []uuid.UUID{ann, next}
			w.between = func(id uuid.UUID) {
				if id == ann {
					d.erase(ann)
				}
			}
			out, err := d.Begin(t.Context(), d.who(), d.message(c.session))
			require.Equal(t, before, d.number("SELECT count(*) FROM turns WHERE customer = $1", ann))
			require.Equal(t, before, d.number("SELECT count(*) FROM conversations WHERE customer = $1", ann))
			if c.begun {
				f := fault.As(err)
				require.NotNil(t, f, "%v", err)
				require.Equal(t, fault.CodeConflict, f.Code)
				require.True(t, f.Retryable, "the session is deleted soon")
				return
			}
			require.NoError(t, err)
			require.Equal(t, next, *out.Turn.Customer)
			require.Equal(t, 1, d.number("SELECT count(*) FROM turns WHERE customer = $1", next))

			w.next, w.between = []uuid.UUID{ann}, nil
			_, err = d.Begin(t.Context(), d.who(), d.message("other"))
			require.True(t, fault.HasCode(err, fault.CodeCustomerNotFound), "%v", err)
			require.Equal(t, 1, d.number("SELECT count(*) FROM turns"))
		})
	}
}

// A message that names no customer goes on in the session of one. Where that one is erased, it does not.
func TestMessageInASessionOfAnErasedCustomerIsRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ann := d.customer()
	w := &writers{next: []uuid.UUID{ann}}
	d.d.Customers = w
	_, err := d.Begin(t.Context(), d.who(), d.message("s"))
	require.NoError(t, err)
	w.next = nil
	out, err := d.Begin(t.Context(), d.who(), d.message("s"))
	require.NoError(t, err)
	require.Equal(t, ann, *out.Turn.Customer)
	d.erase(ann)
	for _, next := range [][]uuid.UUID{nil, {d.customer()}} {
		w.next = next
		_, err = d.Begin(t.Context(), d.who(), d.message("s"))
		require.True(t, fault.HasCode(err, fault.CodeConflict), "%v", err)
		require.Equal(t, 2, d.number("SELECT count(*) FROM turns"))
	}
}

// Messages that race with an erasure are either found by it or not written. None is left.
func TestNoMessageThatRacesWithAnErasureIsLeft(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const rounds, callers, messages = 5, 3, 4
	for range rounds {
		ann := d.customer()
		d.d.Customers = &writers{next: []uuid.UUID{ann}}
		var all sync.WaitGroup
		var found int
		var failed error
		for n := range callers {
			all.Go(func() {
				for range messages {
					_, _ = d.Begin(t.Context(), d.who(), d.message(fmt.Sprint(ann, n)))
				}
			})
		}
		all.Go(func() {
			c := d.db.Tenant(d.tenant)
			if _, failed = c.Exec(t.Context(), "DELETE FROM customers WHERE id = $1", ann); failed == nil {
				failed = c.QueryRow(t.Context(), "SELECT count(*) FROM turns WHERE customer = $1", ann).Scan(&found)
			}
		})
		all.Wait()
		require.NoError(t, failed)
		require.Equal(t, found, d.number("SELECT count(*) FROM turns WHERE customer = $1", ann), "what was there when the erasure committed")
	}
}

// A message to another agent is not written where the customer was erased while the first one worked.
func TestAgentIsNotAskedForAnErasedCustomer(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ann := uuid.Must(uuid.NewV7())
	_, err := d.Ask(t.Context(), d.who(), Call{
		AgentID: uuid.New(), Version: 1, Message: "Look into it", Execution: "exec_above", Step: "answers/0/calls/0", Customer: &ann, Metadata: []byte(`{}`),
		By: actor.Actor{Kind: actor.Agent, TenantID: d.tenant, ID: uuid.New()}, Chain: agentloop.Chain{}, Also: func(*db.Batch, string) {},
	})
	require.True(t, fault.HasCode(err, fault.CodeCustomerNotFound), "%v", err)
	require.Zero(t, d.number("SELECT count(*) FROM conversations"))
}

// The sessions of a customer who is merged are those of the other one: a message in an old session goes
// on in it, and lists find it by each id.
func TestSessionsOfAMergedCustomerAreThoseOfTheOther(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ann, twin := d.customer(), d.customer()
	w := &writers{next: []uuid.UUID{twin}}
	d.d.Customers = w
	_, err := d.Begin(t.Context(), d.who(), d.message("old"))
	require.NoError(t, err)
	require.NoError(t, d.d.DB.InTenant(t.Context(), d.tenant, func(tx pgx.Tx) error {
		b := &db.Batch{}
		d.QueueMoved(b, d.tenant, ann, twin)
		if err := b.SendIn(t.Context(), tx); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), "UPDATE customer_identifiers SET customer_id = $1 WHERE customer_id = $2", ann, twin)
		if err == nil {
			_, err = tx.Exec(t.Context(), "DELETE FROM customers WHERE id = $1", twin)
		}
		return err
	}))
	for name, next := range map[string][]uuid.UUID{"the one that stays": {ann}, "a look-up before the merge": {twin}, "nobody": nil} {
		w.next = next
		out, err := d.Begin(t.Context(), d.who(), d.message("old"))
		require.NoError(t, err, name)
		require.Equal(t, ann, *out.Turn.Customer, name)
	}
	for _, id := range []uuid.UUID{ann, twin} {
		page, _, err := d.Sessions(t.Context(), d.tenant, SessionFilter{AgentID: d.message("").AgentID, Customer: &id, Limit: 10})
		require.NoError(t, err)
		require.Len(t, page, 1)
		require.Equal(t, ann, *page[0].Customer)
		turns, _, err := d.List(t.Context(), actor.Actor{Kind: actor.User, TenantID: d.tenant}, Filter{Customer: &id, Limit: 10})
		require.NoError(t, err)
		require.Len(t, turns, 4)
	}
	page, _, err := d.SessionsOf(t.Context(), d.tenant, ann, d.now.Add(time.Hour), uuid.Nil, 10)
	require.NoError(t, err)
	require.Len(t, page, 1)
}

// runsMap writes a Map that the message has started, and that goes on.
func (d *desk) runsMap(turn uuid.UUID) {
	d.t.Helper()
	_, err := d.db.Tenant(d.tenant).Exec(d.t.Context(), `INSERT INTO map_executions (tenant_id, id, execution_id, map_id, version, map_type, dry_run, attempt, fingerprint, payload, metadata, origin, request_id, source_addr, workflow_id, status, updated_at)
		VALUES ($1, $2::uuid, 'map_' || $2::uuid::text, $2::uuid, 1, 'cognitive', false, 1, '', '', '{}', 'agent', '', '', '', 'waiting', now())`, d.tenant, turn)
	require.NoError(d.t, err)
	d.exec("UPDATE turns SET map_execution_id = 'map_' || id::text WHERE id = $1", turn)
}

// A Map of a session may ask, and the session's next message answers. So the session stays until its
// Map has ended.
func TestSessionsStayUntilTheirMapsHaveEnded(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ann := uuid.New()
	asks := d.turn(d.tenant, &ann, Ended, d.now.Add(-d.cfg.Keep-time.Minute))
	d.runsMap(asks.ID)
	require.NoError(t, d.EraseOld(t.Context()))
	erased, waits := d.eraseOf(ann)
	require.Zero(t, erased)
	require.True(t, waits)
	owner := actor.Actor{Kind: actor.User, TenantID: d.tenant, ID: uuid.New()}
	err := d.DeleteSession(t.Context(), owner, SessionRef{AgentID: asks.ID, SessionID: asks.ID.String()}, nil)
	require.True(t, fault.HasCode(err, fault.CodeConflict), "%v", err)
	require.Equal(t, "map_"+asks.ID.String(), fault.As(err).ExecutionID)
	require.Equal(t, 1, d.number("SELECT count(*) FROM conversations"))

	d.exec("UPDATE map_executions SET finished_at = now()")
	require.NoError(t, d.EraseOld(t.Context()))
	require.Zero(t, d.number("SELECT count(*) FROM conversations"))
}
