package vault_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/provider/vault"
)

// told returns the types of the events so far, in their order.
func (r *rig) told(t *testing.T) []string {
	t.Helper()
	rows, err := r.admin.Query(t.Context(), "SELECT type FROM events WHERE type LIKE 'credential.%' ORDER BY xid, id")
	require.NoError(t, err)
	out, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return out
}

func TestTenantIsToldOfACredentialThatExpiresOnceEach(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	r := newRig(t)
	other, err := r.another() // a second process does the same job
	require.NoError(t, err)
	began := r.clock
	ends := began.Add(30 * day)
	_, err = r.Create(t.Context(), by(r.tenant), vault.New{Provider: "shop", Type: "api_key", Data: json.RawMessage(`{"key":"k"}`), ExpiresAt: &began})
	require.Equal(t, fault.CodeValidation, fault.As(err).Code, "its end is not to come")
	c, err := r.Create(t.Context(), by(r.tenant), vault.New{Provider: "shop", Type: "api_key", Label: "live", CustomerID: "cus_1", Data: json.RawMessage(`{"key":"k"}`), ExpiresAt: &ends})
	require.NoError(t, err)
	_, err = r.Create(t.Context(), by(r.other), vault.New{Provider: "shop", Type: "api_key", Data: json.RawMessage(`{"key":"k"}`)})
	require.NoError(t, err)
	expiring := []string{"credential.expiring"}
	for _, step := range []struct {
		before time.Duration
		told   []string
		status vault.Status
	}{
		{7*day + time.Second, []string{}, vault.StatusActive},
		{7 * day, expiring, vault.StatusActive},
		{day + time.Second, expiring, vault.StatusActive},
		{day, append(expiring, "credential.expiring"), vault.StatusActive},
		{time.Second, append(expiring, "credential.expiring"), vault.StatusActive},
		{0, append(expiring, "credential.expiring", "credential.expired"), vault.StatusExpired},
		{-day, append(expiring, "credential.expiring", "credential.expired"), vault.StatusExpired},
	} {
		r.clock = ends.Add(-step.before)
		for _, v := range []*vault.Vault{r.Vault, other, r.Vault} {
			require.NoError(t, v.TellOfExpiry(t.Context()))
		}
		require.Equal(t, step.told, r.told(t), step.before)
		now, err := r.Get(t.Context(), r.tenant, c.ID)
		require.NoError(t, err)
		require.Equal(t, step.status, now.Status, step.before)
	}
	active := string(vault.StatusActive)
	_, err = r.Update(t.Context(), by(r.tenant), c.ID, vault.Patch{Status: &active})
	require.Equal(t, fault.CodeValidation, fault.As(err).Code, "it has expired")

	// A rotation, or another end, makes it active again. Less than a day is left: only the end is told.
	soon := r.clock.Add(time.Hour)
	now, err := r.Rotate(t.Context(), by(r.tenant), c.ID, json.RawMessage(`{"key":"l"}`), &soon)
	require.NoError(t, err)
	require.Equal(t, vault.StatusActive, now.Status)
	require.NoError(t, r.TellOfExpiry(t.Context()))
	require.Len(t, r.told(t), 3)
	r.clock = soon.Add(9 * day)
	require.NoError(t, r.TellOfExpiry(t.Context()))
	require.Len(t, r.told(t), 4)
	var never *time.Time
	now, err = r.Update(t.Context(), by(r.tenant), c.ID, vault.Patch{ExpiresAt: &never})
	require.NoError(t, err)
	require.Equal(t, vault.StatusActive, now.Status)
	require.Nil(t, now.ExpiresAt)

	// A revoked one is not told of.
	later, revoked := r.clock.Add(day), string(vault.StatusRevoked)
	at := &later
	_, err = r.Update(t.Context(), by(r.tenant), c.ID, vault.Patch{ExpiresAt: &at, Status: &revoked})
	require.NoError(t, err)
	r.clock = later.Add(day)
	require.NoError(t, r.TellOfExpiry(t.Context()))
	require.Len(t, r.told(t), 4)
	now, err = r.Get(t.Context(), r.tenant, c.ID)
	require.NoError(t, err)
	require.Equal(t, vault.StatusRevoked, now.Status)
}

// What was missed while no process ran is not told late: the next notice says more.
func TestCredentialThatHasExpiredMeanwhileIsToldOfOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ends := r.clock.Add(30 * 24 * time.Hour)
	_, err := r.Create(t.Context(), by(r.tenant), vault.New{Provider: "shop", Type: "api_key", Data: json.RawMessage(`{"key":"k"}`), ExpiresAt: &ends})
	require.NoError(t, err)
	r.clock = ends.Add(time.Hour)
	require.NoError(t, r.TellOfExpiry(t.Context()))
	require.Equal(t, []string{"credential.expired"}, r.told(t))
}
