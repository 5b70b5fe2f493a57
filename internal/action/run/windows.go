package run

import (
	"agentruntime/db"
	"agentruntime/db/dbsqlc"
	"agentruntime/internal/base/verb"
)

// isCounted reports whether windows count the run from the moment it is sent. They do not count a
// dry run. One that people approved is a call like any other.
func (p prepared) isCounted() bool {
	return p.verdict.Windows != nil && (!p.run.DryRun || p.target.Operation() == verb.Write)
}

// queueWindows adds the gate of the windows of the call, where it is in any: what was read when it
// was judged may have changed since. It comes after all that locks the run, and before what locks
// the circuit of the provider and the budgets of the tenant.
func (p prepared) queueWindows(b *db.Batch) {
	if p.verdict.Windows == nil {
		return
	}
	db.Queue(b, dbsqlc.New().RequireWindows, dbsqlc.RequireWindowsParams{
		TenantID: p.run.TenantID, RunID: p.run.ID, Windows: p.verdict.Windows.Stored(p.isCounted()), Counted: p.isCounted(),
	})
}
