package api

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
)

func TestDryRunFlagIsReadInEverySpelling(t *testing.T) {
	t.Parallel()
	for metadata, want := range map[string]string{
		`{"dryRun":true}`:                 "on",
		`{"dry_run":true}`:                "on",
		`{"dryrun":true}`:                 "on",
		`{"DRY-RUN":true}`:                "on",
		`{"Dry_Run":true}`:                "on",
		`{"DRYRUN":false}`:                "off",
		`{"dryRun":true,"dry_run":false}`: "on",
		`{"dryRun":null}`:                 "/metadata/dryRun",
		`{"DRY-RUN":"true"}`:              "/metadata/DRY-RUN",
		`{"dryrun":1}`:                    "/metadata/dryrun",
		`{"dry":true}`:                    "/metadata/dry",
		`{"dryRunOnly":false}`:            "/metadata/dryRunOnly",
		`{"dry~run":true}`:                "/metadata/dry~0run",
		`{"dry_cleaning":"shirts"}`:       "off",
		`{"laundry":true}`:                "off",
		`{"nested":{"dryRun":true}}`:      "off",
		`{}`:                              "off",
	} {
		var v wire.Validation
		on := dryRunFlag(&v, json.RawMessage(metadata), nil, nil)
		if err := v.Err(); err != nil {
			require.Contains(t, details(err), want, metadata)
			continue
		}
		require.Equal(t, want == "on", on, metadata)
		require.Contains(t, []string{"on", "off"}, want, metadata)
	}
	var v wire.Validation
	require.True(t, dryRunFlag(&v, nil, json.RawMessage(`false`), json.RawMessage(`true`)))
	require.NoError(t, v.Err())
	dryRunFlag(&v, nil, json.RawMessage(`"true"`), nil)
	require.Contains(t, details(v.Err()), "/dryRun")
}

// details returns the paths that an error names.
func details(err error) (paths []string) {
	for _, d := range fault.As(err).Details {
		paths = append(paths, d.Path)
	}
	return paths
}
