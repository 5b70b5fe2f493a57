package event_test

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/db"
	"agentruntime/internal/record/event"
)

// BenchmarkQueue writes the event of a small run, sealed, each in a transaction of its own. It
// reports what Postgres writes to its log for it.
func BenchmarkQueue(b *testing.B) {
	w, tenant := newWorld(b, nil), uuid.New()
	written := func() int { return w.number("SELECT pg_current_wal_lsn() - '0/0'") }
	w.admin("CHECKPOINT") // the first change of a page after it is written whole
	write := func(id string) {
		batch := &db.Batch{}
		event.Queue(batch, event.Event{TenantID: tenant, Key: w.key, About: event.About{ExecutionID: "exec_" + id}, Body: event.Executed{Outcome: event.Outcome{
			Call:    event.Call{Verb: "shop:create_order", Provider: "shop", RiskLevel: "medium", OperationType: "write"},
			Attempt: 1, DurationMS: 184, ProviderStatus: 201, Result: json.RawMessage(`{"id":"ord_77","total":1999,"status":"open"}`),
		}}})
		require.NoError(b, w.db.Send(b.Context(), tenant, batch))
	}
	for range 1000 {
		write(uuid.NewString())
	}
	before := written()
	b.ResetTimer()
	for b.Loop() {
		write(uuid.NewString())
	}
	b.ReportMetric(float64(written()-before)/float64(b.N), "wal-B/op")
}
