package audit_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/base/redact"
	"agentruntime/internal/dev/testkit"
	"agentruntime/internal/record/audit"
	"agentruntime/internal/record/chain"
)

func TestExportsOfAllKindsVerify(t *testing.T) {
	t.Parallel()
	a := newTrail(t, audit.Config{Batch: 50})
	tenant, other := a.tenant(t), a.tenant(t)
	early := a.clock.Now()
	for n := range 12 {
		a.append(t, tenant, 100)
		a.append(t, other, 3)
		r := record(tenant, "rare")
		r.ExecutionID, r.Decision = "one-of-a-kind", "block"
		require.NoError(t, audit.Append(t.Context(), a.db.Tenant(tenant), r))
		if n%4 == 0 {
			a.clock.advance(time.Hour)
			a.sealDue(t, tenant)
		}
	}
	future := early.Add(100 * 24 * time.Hour)
	for name, c := range map[string]struct {
		filter          audit.Filter
		shown           int64
		first, last     int64
		filters         string
		someCheckpoints bool
	}{
		"whole":        {audit.Filter{}, 1212, 1, 1212, `{}`, true},
		"an execution": {audit.Filter{ExecutionID: "one-of-a-kind"}, 12, 101, 1212, `{"execution_id":"one-of-a-kind"}`, true},
		"a session":    {audit.Filter{SessionID: "session-1", Action: "rare"}, 12, 101, 1212, `{"action":"rare","session_id":"session-1"}`, true},
		"a verb":       {audit.Filter{Provider: "shop", Verb: "create_order"}, 1212, 1, 1212, `{"provider":"shop","verb":"shop:create_order"}`, true},
		"everybody":    {audit.Filter{ActorType: "key", ActorID: "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90"}, 1212, 1, 1212, `{"actor_type":"key","actor":"0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90"}`, true},
		"nothing":      {audit.Filter{Action: "none"}, 0, 1213, 1212, `{"action":"none"}`, false},
		"no time":      {audit.Filter{From: &future}, 0, 1213, 1212, `{"from":"` + future.Format(chain.TimeFormat) + `"}`, false},
		"all time":     {audit.Filter{To: &future}, 1212, 1, 1212, `{"to":"` + future.Format(chain.TimeFormat) + `"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := a.file(t, tenant, c.filter)
			sum, err := chain.Verify(bytes.NewReader(file), a.keys(t))
			require.NoError(t, err)
			require.Equal(t, tenant, sum.TenantID)
			require.Equal(t, []int64{c.shown, c.first, c.last}, []int64{sum.Records, sum.FirstSeq, sum.LastSeq})
			require.Equal(t, c.last-c.first+1-c.shown, sum.Hidden)
			require.JSONEq(t, c.filters, sum.Filters)
			require.Equal(t, c.someCheckpoints, sum.Checkpoints > 0)
			for line := range bytes.Lines(file) {
				require.True(t, json.Valid(line))
			}
			if c.filter.ExecutionID != "" {
				require.NotContains(t, string(file), "order-2026", "what is left out is not in the file")
			}
		})
	}
}

// Keys are rotated: what was signed before is verified with the public key alone.
func TestOldKeysVerifyOldCheckpoints(t *testing.T) {
	t.Parallel()
	a := newTrail(t, audit.Config{})
	tenant := a.tenant(t)
	a.append(t, tenant, 2)
	_ = a.file(t, tenant, audit.Filter{})
	old := a.keys(t)
	a.append(t, tenant, 2)
	rotated := a.over(t, audit.Config{}, bytes.Repeat([]byte{9}, 32))
	require.NoError(t, rotated.Seal(t.Context(), tenant))
	report, err := rotated.Verify(t.Context(), tenant)
	require.NoError(t, err)
	require.Equal(t, audit.ProblemCheckpointKey, report.First.Problem)

	signer, err := chain.NewSigner(bytes.Repeat([]byte{9}, 32))
	require.NoError(t, err)
	var public []byte
	for _, key := range old {
		public = key
	}
	a.Trail, err = audit.New(audit.Config{SettleWait: time.Minute}, audit.Deps{DB: a.db.Pool, Signer: signer, OldKeys: []ed25519.PublicKey{public}, Log: testkit.Quiet()})
	require.NoError(t, err)
	file := a.file(t, tenant, audit.Filter{})
	sum, err := chain.Verify(bytes.NewReader(file), a.keys(t))
	require.NoError(t, err)
	require.Equal(t, int64(2), sum.Checkpoints)
	require.Equal(t, signer.KID(), sum.KID)
	a.valid(t, tenant, 4)
}

// Every kind of damage in the database is found, where it is.
func TestDamageInTheDatabaseIsFound(t *testing.T) {
	t.Parallel()
	const ofSeq = ` WHERE id = (SELECT record_id FROM audit_seals WHERE seq = 3)`
	for name, c := range map[string]struct {
		damage  string
		problem string
		seq     int64
		whole   bool // an export is not refused
		what    string
	}{
		"altered":            {`UPDATE audit_records SET outcome = 'failed'` + ofSeq, audit.ProblemRecordAltered, 3, true, "after or at record 3: the record is not the one"},
		"altered later":      {`UPDATE audit_records SET at = at + interval '1 microsecond'` + ofSeq, audit.ProblemRecordAltered, 3, true, "record 3"},
		"input altered":      {`UPDATE audit_records SET input = '{}'` + ofSeq, audit.ProblemRecordAltered, 3, true, "record 3"},
		"deleted":            {`DELETE FROM audit_records` + ofSeq, audit.ProblemRecordMissing, 3, true, "the record is missing"},
		"seal deleted":       {`DELETE FROM audit_seals WHERE seq = 3`, audit.ProblemSealMissing, 3, true, "record 4 follows record 2"},
		"seal and record":    {`WITH s AS (DELETE FROM audit_seals WHERE seq = 3 RETURNING record_id) DELETE FROM audit_records USING s WHERE id = record_id`, audit.ProblemSealMissing, 3, true, "record 4 follows record 2"},
		"hash":               {`UPDATE audit_seals SET hash = leaf WHERE seq = 3`, audit.ProblemHashBroken, 3, true, "record 3"},
		"leaf":               {`UPDATE audit_seals SET leaf = hash WHERE seq = 3`, audit.ProblemRecordAltered, 3, true, ""},
		"tail cut":           {`DELETE FROM audit_seals WHERE seq > 3`, audit.ProblemCheckpointAhead, 5, false, ""},
		"last hash":          {`UPDATE audit_seals SET hash = leaf WHERE seq = 5`, audit.ProblemHashBroken, 5, false, ""},
		"checkpoint moved":   {`UPDATE audit_checkpoints SET seq = 4 WHERE seq = 5`, audit.ProblemCheckpointFalse, 4, false, ""},
		"checkpoint altered": {`UPDATE audit_checkpoints SET at = at + interval '1 hour'`, audit.ProblemCheckpointFalse, 5, true, "the signature of the checkpoint is false"},
		"checkpoint's key":   {`UPDATE audit_checkpoints SET kid = '0000000000000000'`, audit.ProblemCheckpointKey, 5, true, "is not among the given ones"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newTrail(t, audit.Config{})
			tenant := a.tenant(t)
			a.append(t, tenant, 5)
			_ = a.file(t, tenant, audit.Filter{})
			exec(t, a.admin(t), c.damage)
			report, err := a.Verify(t.Context(), tenant)
			require.NoError(t, err)
			require.NotNil(t, report.First)
			require.Equal(t, c.problem, report.First.Problem)
			require.Equal(t, c.seq, report.First.Seq)
			x, err := a.NDJSON(t.Context(), tenant, audit.Filter{})
			if !c.whole {
				require.True(t, fault.HasCode(err, fault.CodeConflict), "%v", err)
				return
			}
			require.NoError(t, err)
			var file bytes.Buffer
			require.NoError(t, x.WriteTo(t.Context(), &file))
			if c.what == "" {
				return
			}
			_, err = chain.Verify(&file, a.keys(t))
			require.ErrorContains(t, err, c.what)
		})
	}
}

// A record of another tenant that is moved over, seal and all, is found.
func TestRecordsThatAreMovedBetweenTenantsAreFound(t *testing.T) {
	t.Parallel()
	a := newTrail(t, audit.Config{})
	tenant, other := a.tenant(t), a.tenant(t)
	a.append(t, tenant, 3)
	a.append(t, other, 3)
	require.NoError(t, a.Seal(t.Context(), tenant))
	require.NoError(t, a.Seal(t.Context(), other))
	admin := a.admin(t)
	exec(t, admin, `DELETE FROM audit_seals WHERE tenant_id = $1`, tenant)
	exec(t, admin, `UPDATE audit_seals SET tenant_id = $1`, tenant)
	exec(t, admin, `DELETE FROM audit_records WHERE tenant_id = $1`, tenant)
	exec(t, admin, `UPDATE audit_records SET tenant_id = $1`, tenant)
	report, err := a.Verify(t.Context(), tenant)
	require.NoError(t, err)
	require.NotNil(t, report.First)
	require.Equal(t, int64(1), report.First.Seq)
	require.Equal(t, int64(4), report.Problems, "three records are not as sealed, and the chain begins elsewhere")
}

func TestCSVIsHarmlessAndFaithful(t *testing.T) {
	t.Parallel()
	a := newTrail(t, audit.Config{})
	tenant := a.tenant(t)
	for in, out := range map[string]string{
		"plain":                        "plain",
		"":                             "",
		"=1+1":                         "'=1+1",
		"=HYPERLINK(\"x\",\"y\")":      "'=HYPERLINK(\"x\",\"y\")",
		"+49 30 1234":                  "'+49 30 1234",
		"-2":                           "'-2",
		"@SUM(A1)":                     "'@SUM(A1)",
		"\tx":                          "'\tx",
		"\rx":                          "'\rx",
		"\nx":                          "'\nx",
		" =1+1":                        "' =1+1",
		"\u00a0=1+1":                   "'\u00a0=1+1",
		"＝1+1":                         "'＝1+1",
		"a=b":                          "a=b",
		"'=1":                          "'=1",
		"two, cells":                   "two, cells",
		"a \"quote\"":                  "a \"quote\"",
		"=cmd|' /C calc'!A0":           "'=cmd|' /C calc'!A0",
		"\"=1+1":                       "\"=1+1",
		"a line\nand one more\r\nlast": "a line\nand one more\r\nlast",
	} {
		r := record(tenant, "cell")
		r.SubjectID, r.Input = in, nil
		r.Details = json.RawMessage(`{"s": "x"}`)
		require.NoError(t, audit.Append(t.Context(), a.db.Tenant(tenant), r))
		x, err := a.CSV(t.Context(), tenant, audit.Filter{SubjectID: in})
		require.NoError(t, err)
		var file bytes.Buffer
		require.NoError(t, x.WriteTo(t.Context(), &file))
		require.True(t, strings.HasSuffix(file.String(), "\r\n"))
		// encoding/csv reads CRLF within cells as LF; what is quoted is compared as written.
		require.Contains(t, file.String(), `"`+strings.ReplaceAll(out, `"`, `""`)+`"`, "%q", in)
		rows, err := csv.NewReader(&file).ReadAll()
		require.NoError(t, err)
		last := rows[len(rows)-1]
		require.Equal(t, strings.ReplaceAll(out, "\r\n", "\n"), last[13], "%q", in)
		require.Equal(t, `{"s": "x"}`, last[19]) //nolint:testifylint // the bytes count
		for _, row := range rows {
			require.Len(t, row, 20)
		}
	}
}

// meter counts what is written and remembers the most memory that was in use.
type meter struct {
	written int64
	pieces  int
	peak    uint64
}

// Write implements io.Writer.
func (m *meter) Write(b []byte) (int, error) {
	m.written += int64(len(b))
	if m.pieces++; m.pieces%10 == 0 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		m.peak = max(m.peak, s.HeapAlloc)
	}
	return len(b), nil
}

// Not parallel: it looks at the memory of the process.
//
//nolint:paralleltest // see above
func TestAnExportOfManyRecordsTakesLittleMemory(t *testing.T) {
	a := newTrail(t, audit.Config{})
	tenant := a.tenant(t)
	const records = 100_000
	a.fill(t, tenant, records)
	require.NoError(t, a.Seal(t.Context(), tenant))
	x, err := a.NDJSON(t.Context(), tenant, audit.Filter{})
	require.NoError(t, err)
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var m meter
	in, out := io.Pipe()
	verified := make(chan error, 1)
	go func() {
		sum, err := chain.Verify(in, a.keys(t))
		if err == nil && sum.Records != records {
			err = errors.New("records are missing")
		}
		verified <- err
	}()
	require.NoError(t, x.WriteTo(t.Context(), io.MultiWriter(&m, out)))
	require.NoError(t, out.Close())
	require.NoError(t, <-verified)
	require.Greater(t, m.written, int64(50<<20))
	require.Greater(t, m.pieces, 90)
	require.Less(t, int64(m.peak)-int64(before.HeapAlloc), int64(16<<20), "of %d MiB that were written", m.written>>20)
	t.Logf("%d MiB in %d pieces; %d KiB more heap at most", m.written>>20, m.pieces, (int64(m.peak)-int64(before.HeapAlloc))>>10)
}

// fill appends n records by one statement.
func (t *trail) fill(tb testing.TB, tenant uuid.UUID, n int) {
	tb.Helper()
	_, err := t.db.Tenant(tenant).Exec(context.Background(), `
INSERT INTO audit_records (id, tenant_id, actor_type, actor_id, action, provider, verb, risk_level, decision, outcome, execution_id, request_id, source_addr, input, details)
SELECT gen_random_uuid(), $1, 'key', '0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90', 'run.executed', 'shop', 'create_order', 'medium', 'allow', 'executed',
       'order-' || n, 'req_0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a91', '192.0.2.7', '{"customer_id": "cus_1001", "amount": 1999}', '{"policy":"registry_default"}'
  FROM generate_series(1, $2::int) n`, tenant, n)
	require.NoError(tb, err)
}

// failing fails after some pieces.
type failing struct{ pieces int }

var errGone = errors.New("gone")

// Write implements io.Writer.
func (f *failing) Write(b []byte) (int, error) {
	if f.pieces--; f.pieces < 0 {
		return 0, errGone
	}
	return len(b), nil
}

func TestAnExportStopsWhenItCannotBeWritten(t *testing.T) {
	t.Parallel()
	a := newTrail(t, audit.Config{})
	tenant := a.tenant(t)
	a.fill(t, tenant, 5000)
	x, err := a.NDJSON(t.Context(), tenant, audit.Filter{})
	require.NoError(t, err)
	require.ErrorIs(t, x.WriteTo(t.Context(), &failing{2}), errGone)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, x.WriteTo(ctx, io.Discard), context.Canceled)
}

// A secret that was masked before it was written is in no form of the trail.
func TestNoSecretLeavesTheTrail(t *testing.T) {
	t.Parallel()
	const canary = "sk_live_c4n4ryC4N4RY"
	a := newTrail(t, audit.Config{})
	tenant := a.tenant(t)
	masked, _ := redact.MaskArgs(json.RawMessage(`{"password":"`+canary+`","card":"4242424242424242","amount":1}`), nil)
	r := record(tenant, "run.executed")
	r.Input = masked
	require.NoError(t, audit.Append(t.Context(), a.db.Tenant(tenant), r))
	file := string(a.file(t, tenant, audit.Filter{}))
	require.Contains(t, file, `"amount":1`)
	x, err := a.CSV(t.Context(), tenant, audit.Filter{})
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, x.WriteTo(t.Context(), &b))
	page, _, err := a.List(t.Context(), tenant, audit.Filter{}, nil, 10)
	require.NoError(t, err)
	for _, text := range []string{file, b.String(), string(page[0].Input)} {
		require.NotContains(t, text, canary)
		require.NotContains(t, text, "4242424242424242")
	}
}
