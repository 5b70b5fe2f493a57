package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/process/cli"
	"agentruntime/internal/record/chain"
)

// export writes an export of two records and the keys to it, and returns where they are.
func export(t *testing.T) (file, keys string, tenant uuid.UUID) {
	t.Helper()
	signer, err := chain.NewSigner(bytes.Repeat([]byte{7}, 32))
	require.NoError(t, err)
	tenant = uuid.New()
	at := time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)
	tr := chain.Trailer{TenantID: tenant, FirstSeq: 1, LastSeq: 2, PrevHash: chain.Genesis(tenant), LastHash: chain.Genesis(tenant), Count: 2, Shown: 2, Filters: []byte("{}"), At: at}
	text := chain.Header{TenantID: tenant, FirstSeq: 1, PrevHash: tr.PrevHash, Filters: tr.Filters}.AppendLine(nil)
	for seq := range int64(2) {
		r := chain.Record{ID: uuid.New(), TenantID: tenant, At: at, ActorType: "system", Action: "run.executed"}
		record := r.AppendText(nil)
		tr.LastHash = chain.Link(tr.LastHash, chain.Leaf(record))
		text = chain.AppendRecord(text, seq+1, tr.LastHash, record)
	}
	tr.Content = chain.Leaf(text)
	signer.SignTrailer(&tr)
	text = tr.AppendLine(text)
	public := chain.Keys{}
	public.Add(signer.Public())
	list, err := json.Marshal(map[string]any{"success": true, "data": map[string]any{"keys": public.List()}})
	require.NoError(t, err)
	dir := t.TempDir()
	file, keys = filepath.Join(dir, "export.ndjson"), filepath.Join(dir, "keys.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	require.NoError(t, os.WriteFile(keys, list, 0o600))
	return file, keys, tenant
}

// run is the command line with nothing in the environment; in is its standard input.
func run(t *testing.T, in []byte, args ...string) (string, error) {
	t.Helper()
	cmd := cli.New()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetIn(bytes.NewReader(in))
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestAuditVerify(t *testing.T) {
	t.Parallel()
	file, keys, tenant := export(t)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for name, arg := range map[string]string{"a file": file, "standard input": "-"} {
		out, err := run(t, text, "audit", "verify", arg, "--key", keys)
		require.NoError(t, err, name)
		require.Contains(t, out, "valid\n", name)
		require.Contains(t, out, tenant.String(), name)
		require.Contains(t, out, "1 to 2: 2 shown, 0 left out", name)
	}
	_, err = run(t, bytes.Replace(text, []byte("run.executed"), []byte("run.rejected"), 1), "audit", "verify", "-", "--key", keys)
	require.ErrorContains(t, err, "- is NOT what was exported: line 2, after or at record 1: the record is not the one that was sealed")
	_, err = run(t, text[:len(text)-9], "audit", "verify", "-", "--key", keys)
	require.ErrorContains(t, err, "it was cut")

	for name, args := range map[string][]string{
		"no key":       {"audit", "verify", file},
		"no such file": {"audit", "verify", file + "x", "--key", keys},
		"no such keys": {"audit", "verify", file, "--key", keys + "x"},
		"not keys":     {"audit", "verify", file, "--key", file},
		"no file":      {"audit", "verify", "--key", keys},
	} {
		out, err := run(t, nil, args...)
		require.Error(t, err, name)
		require.NotContains(t, out, "valid\n", name)
	}
}
