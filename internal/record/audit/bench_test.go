package audit_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/record/audit"
)

// BenchmarkAppend appends records, each in a transaction of its own, from 16
// connections, while a sealer follows: for one tenant, and for many.
func BenchmarkAppend(b *testing.B) {
	for name, tenants := range map[string]int{"1 tenant": 1, "20 tenants": 20, "1000 tenants": 1000} {
		b.Run(name, func(b *testing.B) {
			a := newTrail(b, audit.Config{})
			ids := make([]uuid.UUID, tenants)
			for i := range ids {
				ids[i] = a.tenant(b)
			}
			ctx, stop := context.WithCancel(context.Background())
			sealing := make(chan struct{})
			go func() {
				defer close(sealing)
				for ctx.Err() == nil {
					_ = a.SealDue(ctx) // it ends with ctx
				}
			}()
			var n atomic.Int64
			b.SetParallelism(8) // times GOMAXPROCS
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					tenant := ids[int(n.Add(1))%len(ids)]
					if err := audit.Append(ctx, a.db.Tenant(tenant), record(tenant, "run.executed")); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
			began := time.Now()
			stop()
			<-sealing
			for _, tenant := range ids {
				require.NoError(b, a.Seal(context.Background(), tenant))
			}
			b.ReportMetric(time.Since(began).Seconds(), "s-behind")
			report, err := a.Verify(context.Background(), ids[0])
			require.NoError(b, err)
			require.Nil(b, report.First)
			require.Zero(b, report.Unsealed)
		})
	}
}

// BenchmarkSeal seals 50,000 records of one tenant, each of a transaction of its own.
func BenchmarkSeal(b *testing.B) {
	a := newTrail(b, audit.Config{})
	const records = 50_000
	for b.Loop() {
		b.StopTimer()
		tenant := a.tenant(b)
		a.fill(b, tenant, records)
		exec(b, a.admin(b), `UPDATE audit_records SET xid = (xid::text::bigint - (random() * 600)::bigint)::text::xid8 WHERE tenant_id = $1`, tenant)
		b.StartTimer()
		require.NoError(b, a.Seal(context.Background(), tenant))
	}
	b.ReportMetric(records*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkVerifyStored verifies and BenchmarkExport exports 50,000 records.
func BenchmarkVerifyStored(b *testing.B) {
	a := newTrail(b, audit.Config{})
	tenant := a.tenant(b)
	const records = 50_000
	a.fill(b, tenant, records)
	require.NoError(b, a.Seal(context.Background(), tenant))
	for b.Loop() {
		report, err := a.Verify(context.Background(), tenant)
		require.NoError(b, err)
		require.Nil(b, report.First)
	}
	b.ReportMetric(records*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkExport exports as NDJSON and verifies while it is written.
func BenchmarkExport(b *testing.B) {
	a := newTrail(b, audit.Config{})
	tenant := a.tenant(b)
	const records = 50_000
	a.fill(b, tenant, records)
	for b.Loop() {
		file := a.file(b, tenant, audit.Filter{})
		require.NotEmpty(b, file)
	}
	b.ReportMetric(records*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkIdle looks for work among 1,000 tenants that have none.
func BenchmarkIdle(b *testing.B) {
	a := newTrail(b, audit.Config{})
	for range 1000 {
		tenant := a.tenant(b)
		a.append(b, tenant, 3)
		require.NoError(b, a.Seal(context.Background(), tenant))
	}
	require.NoError(b, a.SealDue(context.Background()))
	for b.Loop() {
		require.NoError(b, a.SealDue(context.Background()))
	}
}
