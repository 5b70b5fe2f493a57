package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"strings"

	"agentruntime/internal/kernel/strictjson"
	"agentruntime/internal/kernel/verb"
)

// fingerprint returns the SHA-256 of the canonical JSON of {verb, args, dryRun}. Two calls
// with the same fingerprint are the same call.
func fingerprint(name verb.Name, args json.RawMessage, dryRun bool) ([]byte, error) {
	doc, err := json.Marshal(map[string]any{"verb": name.String(), "args": args, "dryRun": dryRun})
	if err != nil {
		return nil, err
	}
	canonical, err := strictjson.Canonical(doc)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(canonical)
	return sum[:], nil
}

// argsDiffer returns the paths where the arguments of a repeat differ from the original's,
// or "" where they are the same.
func argsDiffer(original Run, args json.RawMessage, print []byte) string {
	if bytes.Equal(original.Fingerprint, print) {
		return ""
	}
	a, errA := strictjson.Canonical(original.Args)
	b, errB := strictjson.Canonical(args)
	if errA != nil || errB != nil {
		return "/args"
	}
	differ := strictjson.Diff(a, b)
	for i := range differ {
		differ[i] = "/args" + differ[i]
	}
	return strings.Join(differ, ", ")
}
