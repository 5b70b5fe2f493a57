package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"

	"agentruntime/internal/base/datakey"
	"agentruntime/internal/base/strictjson"
	"agentruntime/internal/base/verb"
)

// fingerprint returns the digest of {verb, args, dryRun}, as canonical JSON, under a key of the tenant. Two calls with the same
// fingerprint are the same call. Without the key, short arguments cannot be guessed from it.
func fingerprint(key *datakey.Key, name verb.Name, args json.RawMessage, dryRun bool) ([]byte, error) {
	doc, err := json.Marshal(map[string]any{"verb": name.String(), "args": args, "dryRun": dryRun})
	if err != nil {
		return nil, err
	}
	canonical, err := strictjson.Canonical(doc)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(canonical)
	return key.Digest(sum[:]), nil
}

// maxPath is the most bytes of a path that argsDiffer returns. strictjson.Diff shortens long
// names, but arguments may be nested deeply.
const maxPath = 200

// sameCall reports whether a stored hash is that of the call as it would be sent.
func (p prepared) sameCall(stored []byte) bool {
	print, err := fingerprint(p.run.key, p.run.Verb, p.run.Effective(), p.run.DryRun)
	return err == nil && bytes.Equal(stored, print)
}

// argsDiffer returns the JSON Pointers of the places where the arguments of a repeat differ
// from the original's, or nil where they are the same. The list and its paths are bounded:
// strictjson.Diff names ten places, and for a deep one the result names a place above it.
func argsDiffer(original Run, args json.RawMessage, print []byte) []string {
	if bytes.Equal(original.Fingerprint, print) {
		return nil
	}
	differ := strictjson.Diff(original.Args, args)
	for i, path := range differ {
		path = "/args" + path
		for len(path) > maxPath {
			path = path[:strings.LastIndexByte(path, '/')]
		}
		differ[i] = path
	}
	return slices.Compact(differ)
}
