package chain_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/record/chain"
)

// signer is made of a seed of 32 equal bytes.
func signer(tb testing.TB, b byte) *chain.Signer {
	tb.Helper()
	s, err := chain.NewSigner(bytes.Repeat([]byte{b}, 32))
	require.NoError(tb, err)
	return s
}

func keysOf(signers ...*chain.Signer) chain.Keys {
	keys := chain.Keys{}
	for _, s := range signers {
		keys.Add(s.Public())
	}
	return keys
}

var began = time.Date(2026, 1, 31, 9, 0, 0, 123456000, time.UTC)

// record is the n-th of a tenant, of the size that runs write.
func record(tenant uuid.UUID, n int) chain.Record {
	session := fmt.Sprintf("session-%d", n%3)
	return chain.Record{
		ID: uuid.NewSHA1(tenant, fmt.Append(nil, n)), TenantID: tenant, At: began.Add(time.Duration(n) * time.Second),
		ActorType: "key", ActorID: "0199a1ef-9a10-7b33-a5a7-2c1d8e4f7a90", Action: "run.executed", Provider: "shop", Verb: "create_order",
		RiskLevel: "medium", Decision: "allow", Outcome: "executed", ExecutionID: fmt.Sprintf("order-2026-%04d", n), SessionID: &session,
		RequestID: "req_0199a1f0-3b6e-7c40-9d55-0a3c5f0f6a10", SourceAddr: "192.0.2.7",
		Input:   []byte(`{"customer_id":"cus_1001","amount":1999,"currency":"eur","card":"[masked]"}`),
		Details: []byte(`{"policy":"registry_default"}`),
	}
}

// exporting writes export files as internal/record/audit does.
type exporting struct {
	tenant     uuid.UUID
	records    int
	checkpoint int              // one after so many records; 0 for none
	hide       func(n int) bool // nil for a whole export
	skip       int              // records before the first line
	old        *chain.Signer    // of the checkpoints; nil for signer
}

// write returns the file as its lines.
func (e exporting) write(tb testing.TB, s *chain.Signer) [][]byte {
	tb.Helper()
	h := chain.Header{TenantID: e.tenant, FirstSeq: int64(e.skip) + 1, PrevHash: chain.Genesis(e.tenant), Filters: []byte("{}")}
	if e.hide != nil {
		h.Filters = []byte(`{"decision":"block"}`)
	}
	for n := range e.skip {
		r := record(e.tenant, n)
		h.PrevHash = chain.Link(h.PrevHash, chain.Leaf(r.AppendText(nil)))
	}
	lines := [][]byte{h.AppendLine(nil)}
	t := chain.Trailer{TenantID: e.tenant, FirstSeq: h.FirstSeq, LastSeq: int64(e.skip + e.records), PrevHash: h.PrevHash, LastHash: h.PrevHash, Filters: h.Filters, At: began}
	for n := e.skip; n < e.skip+e.records; n++ {
		r := record(e.tenant, n)
		text := r.AppendText(nil)
		leaf := chain.Leaf(text)
		t.LastHash = chain.Link(t.LastHash, leaf)
		t.Count++
		if e.hide != nil && e.hide(n) {
			lines = append(lines, chain.AppendLeaf(nil, int64(n)+1, t.LastHash, leaf))
		} else {
			lines = append(lines, chain.AppendRecord(nil, int64(n)+1, t.LastHash, text))
			t.Shown++
		}
		if e.checkpoint > 0 && n%e.checkpoint == e.checkpoint-1 {
			c := chain.Checkpoint{TenantID: e.tenant, Seq: int64(n) + 1, Hash: t.LastHash, Kind: chain.KindHourly, At: r.At}
			if e.old == nil {
				s.SignCheckpoint(&c)
			} else {
				e.old.SignCheckpoint(&c)
			}
			lines = append(lines, c.AppendLine(nil))
		}
	}
	t.Content = chain.Leaf(bytes.Join(lines, nil))
	s.SignTrailer(&t)
	return append(lines, t.AppendLine(nil))
}

func verify(keys chain.Keys, lines [][]byte) (chain.Summary, error) {
	return chain.Verify(bytes.NewReader(bytes.Join(lines, nil)), keys)
}

func tenantNo(n byte) uuid.UUID { return uuid.UUID{15: n} }

func TestVerifyAcceptsExports(t *testing.T) {
	t.Parallel()
	now, before := signer(t, 1), signer(t, 2)
	odd := func(n int) bool { return n%2 == 1 }
	for name, c := range map[string]struct {
		export        exporting
		shown, hidden int64
		checkpoints   int64
	}{
		"whole":             {exporting{records: 20, checkpoint: 5}, 20, 0, 4},
		"empty":             {exporting{}, 0, 0, 0},
		"filtered":          {exporting{records: 20, checkpoint: 5, hide: odd}, 10, 10, 4},
		"a part":            {exporting{records: 20, skip: 7, checkpoint: 5, hide: odd}, 10, 10, 4},
		"nothing fits":      {exporting{skip: 7, hide: odd}, 0, 0, 0},
		"after a rotation":  {exporting{records: 20, checkpoint: 5, old: before}, 20, 0, 4},
		"one record":        {exporting{records: 1}, 1, 0, 0},
		"without a session": {exporting{records: 3}, 3, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.export.tenant = tenantNo(1)
			sum, err := verify(keysOf(now, before), c.export.write(t, now))
			require.NoError(t, err)
			require.Equal(t, []int64{c.shown, c.hidden, c.checkpoints}, []int64{sum.Records, sum.Hidden, sum.Checkpoints})
			require.Equal(t, tenantNo(1), sum.TenantID)
			require.Equal(t, int64(c.export.skip+c.export.records), sum.LastSeq)
			require.Equal(t, now.KID(), sum.KID)
		})
	}
}

func TestVerifyWithoutTheSigningKeyFails(t *testing.T) {
	t.Parallel()
	now, other := signer(t, 1), signer(t, 2)
	lines := exporting{tenant: tenantNo(1), records: 3}.write(t, now)
	_, err := verify(keysOf(other), lines)
	require.ErrorContains(t, err, "is not among the given ones")
	lines = exporting{tenant: tenantNo(1), records: 10, checkpoint: 5, old: other}.write(t, now)
	_, err = verify(keysOf(now), lines)
	require.ErrorContains(t, err, "line 7, after or at record 5: the checkpoint is signed with the key")
}

// A record that is replaced by its hash, as if a filter had left it out, keeps the chain
// whole. The trailer shows the change.
func TestVerifyFindsARecordThatWasHiddenAfterTheExport(t *testing.T) {
	t.Parallel()
	s := signer(t, 1)
	for name, hide := range map[string]func(int) bool{"whole": nil, "filtered": func(n int) bool { return n == 4 }} {
		e := exporting{tenant: tenantNo(1), records: 10, hide: hide}
		lines := e.write(t, s)
		e.hide = func(n int) bool { return n == 4 || n == 6 }
		lines[7] = e.write(t, s)[7]
		_, err := verify(keysOf(s), lines)
		require.Error(t, err, name)
	}
}

func TestVerifySaysWhereAProblemIs(t *testing.T) {
	t.Parallel()
	s := signer(t, 1)
	e := exporting{tenant: tenantNo(1), records: 10, checkpoint: 5}
	replace := func(line int, from, to string) func([][]byte) [][]byte {
		return func(lines [][]byte) [][]byte {
			lines[line-1] = bytes.Replace(lines[line-1], []byte(from), []byte(to), 1)
			return lines
		}
	}
	for name, c := range map[string]struct {
		change func([][]byte) [][]byte
		want   string
	}{
		"no file":           {func([][]byte) [][]byte { return nil }, "line 0, after or at record 0: the file is empty"},
		"not an export":     {func([][]byte) [][]byte { return [][]byte{[]byte("{}\n")} }, "line 1, after or at record 0: the first line is not the header"},
		"later version":     {replace(1, `"version":1`, `"version":2`), "has version 2"},
		"altered":           {replace(4, "order-2026-0002", "order-2026-0009"), "line 4, after or at record 3: the record is not the one that was sealed"},
		"white space":       {replace(4, `"record":{`, `"record": {`), "line 4, after or at record 3: the record is not the one that was sealed"},
		"upper case":        {func(l [][]byte) [][]byte { l[3] = append(bytes.ToUpper(l[3][:90]), l[3][90:]...); return l }, "line 4"},
		"dropped":           {func(l [][]byte) [][]byte { return append(l[:3:3], l[4:]...) }, "line 4, after or at record 2: record 4 follows record 2"},
		"checkpoint forged": {replace(7, `"kind":"hourly"`, `"kind":"export"`), "line 7, after or at record 5: the signature of the checkpoint is false"},
		"checkpoint moved":  {func(l [][]byte) [][]byte { l[6], l[7] = l[7], l[6]; return l }, "line 8, after or at record 6: the checkpoint was signed for another record 5"},
		"cut":               {func(l [][]byte) [][]byte { return l[:6] }, "line 6, after or at record 5: the file ends without its signed trailer"},
		"cut in a line":     {func(l [][]byte) [][]byte { l[5] = l[5][:40]; return l[:6] }, "line 6, after or at record 4: the file ends within a line"},
		"end of line gone":  {func(l [][]byte) [][]byte { l[13] = bytes.TrimSpace(l[13]); return l }, "the file ends within a line"},
		"trailer forged":    {replace(14, `"shown":10`, `"shown":11`), "the signature of the trailer is false"},
		"trailing data":     {func(l [][]byte) [][]byte { return append(l, []byte("\n")) }, "line 15, after or at record 10: there is more after the signed trailer"},
		"checkpoint gone":   {func(l [][]byte) [][]byte { return append(l[:6:6], l[7:]...) }, "the lines before the trailer are not those that were signed"},
		"carriage returns":  {replace(3, "}\n", "}\r\n"), "line 3"},
		"a line of its own": {func(l [][]byte) [][]byte { return append(l[:3:3], append([][]byte{[]byte("\n")}, l[3:]...)...) }, "line 4, after or at record 2: the line is neither"},
		"header repeated":   {func(l [][]byte) [][]byte { return append(l[:1:1], l...) }, "line 2, after or at record 0: the line is neither"},
		"foreign genesis":   {replace(1, tenantNo(1).String(), tenantNo(2).String()), "does not begin where that of its tenant does"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := verify(keysOf(s), c.change(e.write(t, s)))
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestVerifyRefusesALineWithoutEnd(t *testing.T) {
	t.Parallel()
	_, err := chain.Verify(strings.NewReader(strings.Repeat("x", 80<<20)), chain.Keys{})
	require.ErrorContains(t, err, "longer than any record")
}

// tampering is a way to change an export; it returns nil where it would change nothing.
type tampering func(r *rand.Rand, lines, other [][]byte) [][]byte

func tamperings() map[string]tampering {
	within := func(r *rand.Rand, lines [][]byte) int { return r.IntN(len(lines)) }
	return map[string]tampering{
		"flip": func(r *rand.Rand, lines, _ [][]byte) [][]byte {
			i := within(r, lines)
			line := bytes.Clone(lines[i])
			line[r.IntN(len(line))] ^= 1 << r.IntN(8)
			lines[i] = line
			return lines
		},
		"drop": func(r *rand.Rand, lines, _ [][]byte) [][]byte {
			i, n := within(r, lines), 1+r.IntN(3)
			return append(lines[:i:i], lines[min(i+n, len(lines)):]...)
		},
		"insert": func(r *rand.Rand, lines, other [][]byte) [][]byte {
			what := lines
			if r.IntN(2) == 0 {
				what = other
			}
			line, i := what[within(r, what)], r.IntN(len(lines)+1)
			return append(append(lines[:i:i], line), lines[i:]...)
		},
		"reorder": func(r *rand.Rand, lines, _ [][]byte) [][]byte {
			i, j := within(r, lines), within(r, lines)
			if bytes.Equal(lines[i], lines[j]) {
				return nil
			}
			lines[i], lines[j] = lines[j], lines[i]
			return lines
		},
		"cut": func(r *rand.Rand, lines, _ [][]byte) [][]byte {
			file := bytes.Join(lines, nil)
			if r.IntN(2) == 0 {
				return lines[:within(r, lines)]
			}
			return [][]byte{file[:r.IntN(len(file))]}
		},
		"move": func(r *rand.Rand, lines, other [][]byte) [][]byte {
			i, n := within(r, lines), 1+r.IntN(5)
			for ; n > 0 && i < len(lines) && i < len(other); i, n = i+1, n-1 {
				lines[i] = other[i] // the same places of another tenant's chain
			}
			return lines
		},
		"edit": func(r *rand.Rand, lines, _ [][]byte) [][]byte {
			i := within(r, lines)
			edited := bytes.Replace(lines[i], []byte("1999"), []byte("1"), 1)
			if bytes.Equal(edited, lines[i]) {
				return nil
			}
			lines[i] = edited
			return lines
		},
	}
}

// There are ten thousand ways to change one of several tenants' exports, the same ones in
// each run of the test. The verifier finds each.
func TestVerifyFindsTenThousandTamperings(t *testing.T) {
	t.Parallel()
	s := signer(t, 1)
	keys := keysOf(s)
	files := make([][][]byte, 0, 4)
	for n := range 4 {
		e := exporting{tenant: tenantNo(byte(n)), records: 40, checkpoint: 7}
		if n%2 == 1 {
			e.hide = func(n int) bool { return n%3 == 0 }
		}
		files = append(files, e.write(t, s))
		_, err := verify(keys, files[n])
		require.NoError(t, err)
	}
	kinds := tamperings()
	names := []string{"flip", "drop", "insert", "reorder", "cut", "move", "edit"}
	require.Len(t, kinds, len(names))
	random := rand.New(rand.NewPCG(2026, 131))
	found := map[string]int{}
	for n := 0; n < 10_000; {
		kind := names[random.IntN(len(names))]
		of := random.IntN(len(files))
		other := files[(of+1+random.IntN(len(files)-1))%len(files)]
		tampered := kinds[kind](random, append([][]byte(nil), files[of]...), other)
		if tampered == nil {
			continue
		}
		n++
		_, err := verify(keys, tampered)
		require.Error(t, err, "tampering %d, %s, was not found", n, kind)
		var problem *chain.FileError
		require.ErrorAs(t, err, &problem)
		found[kind]++
	}
	for _, kind := range names {
		require.Greater(t, found[kind], 500, kind)
	}
	t.Logf("found: %v", found)
}

func TestRecordHasOneText(t *testing.T) {
	t.Parallel()
	r := record(tenantNo(1), 1)
	r.SessionID, r.Verb, r.Details = nil, "", nil
	r.ActorID = "quote\" back\\slash tab\t nul\x00 é \u2028"
	r.Input = []byte("{\n  \"n\": 1e400, \"s\": \"a b\",\t\"n\": 2\n}")
	text := string(r.AppendText(nil))
	require.Equal(t, `{"id":"`+r.ID.String()+`","tenant_id":"00000000-0000-0000-0000-000000000001","at":"2026-01-31T09:00:01.123456Z",`+
		`"actor_type":"key","actor_id":"quote\" back\\slash tab\u0009 nul\u0000 é `+"\u2028"+`","action":"run.executed","provider":"shop","verb":"",`+
		`"risk_level":"medium","decision":"allow","outcome":"executed","subject_type":"","subject_id":"","execution_id":"order-2026-0001",`+
		`"session_id":null,"request_id":"req_0199a1f0-3b6e-7c40-9d55-0a3c5f0f6a10","source_addr":"192.0.2.7",`+
		`"input":{"n":1e400,"s":"a b","n":2},"details":null}`, text)
	r.Input = []byte("no JSON\n")
	text = string(r.AppendText(nil))
	require.True(t, json.Valid([]byte(text)))
	require.NotContains(t, text, "\n")
	require.Contains(t, text, `"input":{"text":"no JSON\u000a"}`)
}

func TestParseKeysRefusesBadFiles(t *testing.T) {
	t.Parallel()
	keys := keysOf(signer(t, 1), signer(t, 2))
	list, err := json.Marshal(keys.List())
	require.NoError(t, err)
	for _, text := range []string{`{"keys":` + string(list) + `}`, `{"success":true,"data":{"keys":` + string(list) + `}}`} {
		read, err := chain.ParseKeys([]byte(text))
		require.NoError(t, err)
		require.Equal(t, keys, read)
	}
	for name, text := range map[string]string{
		"no JSON":       "x",
		"no keys":       `{"keys":[]}`,
		"short key":     `{"keys":[{"kid":"a","alg":"EdDSA","public_key":"AAAA"}]}`,
		"other alg":     strings.ReplaceAll(`{"keys":`+string(list)+`}`, "EdDSA", "ES256"),
		"other name":    strings.ReplaceAll(`{"keys":`+string(list)+`}`, keys.List()[0].KID, keys.List()[1].KID),
		"an array only": string(list),
	} {
		_, err := chain.ParseKeys([]byte(text))
		require.Error(t, err, name)
	}
	_, err = chain.NewSigner([]byte("short"))
	require.Error(t, err)
}

// BenchmarkVerify reads an export of 50,000 records of the size that runs write.
func BenchmarkVerify(b *testing.B) {
	s := signer(b, 1)
	file := bytes.Join(exporting{tenant: tenantNo(1), records: 50_000, checkpoint: 1000}.write(b, s), nil)
	keys := keysOf(s)
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		_, err := chain.Verify(bytes.NewReader(file), keys)
		require.NoError(b, err)
	}
	b.ReportMetric(50_000*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
