package conversation

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
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

// The erasure of a customer waits for the customer's open messages. Nothing of anybody else goes, and
// nothing that came after it was asked for.
func TestSessionsOfACustomerAreErasedWhenNoMessageIsOpen(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	before := d.now.Add(-time.Minute)
	ann, bob := uuid.New(), uuid.New()
	for _, state := range []State{Working, Queued, Waiting, Ended} {
		d.turn(d.tenant, &ann, state, before)
	}
	others := []uuid.UUID{d.turn(d.tenant, &bob, Ended, before).ID, d.turn(d.tenant, nil, Ended, before).ID, d.turn(d.tenant, &ann, Ended, d.now.Add(time.Minute)).ID}

	erased, waits := d.eraseOf(ann)
	require.EqualValues(t, 1, erased, "the session in which nothing is open")
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
	require.Equal(t, 3, d.number("SELECT count(*) FROM turns WHERE id = ANY ($1)", others))
	require.Equal(t, 3, d.number("SELECT count(*) FROM turns"))
}
