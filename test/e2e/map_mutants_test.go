package e2e

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/test/rig"
)

// mutator makes definitions that nobody would write of those of the cases. One seed makes the same
// ones each time.
type mutator struct{ *rand.Rand }

// hostileValues stand where a definition has something else.
func hostileValues() []string {
	return []string{
		`null`, `true`, `""`, `[]`, `{}`, `-1`, `0`, `1e400`, `-0.0`, `9007199254740993`, `"${"`, `"${ }"`, `"${[][536870910] = 1}"`, `"${\"x\" * 2000000000}"`, `"${def f: f; f}"`,
		`"${steps.nobody.output}"`, `"$${x}"`, `"verb"`, `"map"`, `"while"`, `"99999999d"`, `"-1s"`, `"\u0000"`, `"\ud800"`,
		`[[[[[[[[[[[[[[[[[[[[{}]]]]]]]]]]]]]]]]]]]]`, `{"$ref":"#"}`, `{"type":"object","properties":{"a":{"pattern":"(a+)+$"}}}`, `{"allOf":[{"$ref":"#/allOf/0"}]}`,
		`"` + strings.Repeat("x", 70_000) + `"`, `[` + strings.TrimSuffix(strings.Repeat(`{"id":"a","type":"return"},`, 300), ",") + `]`,
	}
}

// json changes one to three places of a definition; the result is JSON mostly.
func (m mutator) json(t *testing.T, raw []byte) []byte {
	t.Helper()
	for range 1 + m.IntN(3) {
		parts := partsOf(raw)
		if len(parts) == 0 {
			break
		}
		at := parts[m.IntN(len(parts))]
		with := []byte(hostileValues()[m.IntN(len(hostileValues()))])
		if m.IntN(3) == 0 { // a part of the same definition in another place
			other := parts[m.IntN(len(parts))]
			with = slices.Clone(raw[other[0]:other[1]])
		}
		raw = slices.Concat(raw[:at[0]], with, raw[at[1]:])
	}
	return raw
}

// partsOf returns where the scalars, names, arrays and objects of a JSON text begin and end.
func partsOf(raw []byte) (parts [][2]int) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	var open []int
	for {
		before := int(dec.InputOffset())
		token, err := dec.Token()
		if err != nil {
			return parts
		}
		end := int(dec.InputOffset())
		begin := before + bytes.IndexFunc(raw[before:end], func(r rune) bool { return !strings.ContainsRune(" \t\r\n,:", r) })
		switch token {
		case json.Delim('['), json.Delim('{'):
			open = append(open, begin)
		case json.Delim(']'), json.Delim('}'):
			if len(open) > 1 { // the whole text is no part
				parts = append(parts, [2]int{open[len(open)-1], end})
			}
			open = open[:len(open)-1]
		default:
			parts = append(parts, [2]int{begin, end})
		}
	}
}

// bytes changes one to four bytes of a text, or takes some out, or has some twice.
func (m mutator) bytes(raw []byte) []byte {
	raw = slices.Clone(raw)
	for range 1 + m.IntN(4) {
		from := m.IntN(len(raw))
		to := min(len(raw), from+1+m.IntN(20))
		switch m.IntN(4) {
		case 0:
			raw[from] = byte(m.IntN(256))
		case 1:
			raw[from] = `{}[]",:\$`[m.IntN(9)]
		case 2:
			raw = slices.Delete(raw, from, to)
		case 3:
			raw = slices.Insert(raw, from, raw[from:to]...)
		}
		if len(raw) == 0 {
			return []byte("{")
		}
	}
	return raw
}

// mutantLimit tells an answer from none, on a busy machine too. What an answer may cost is measured elsewhere.
const mutantLimit = time.Minute

// Definitions that were changed at random are answered: what is wrong with them, or a Map. What becomes
// a Map can be drawn and triggered. No process is lost over them.
func TestMutatedDefinitionsAreAnswered(t *testing.T) {
	t.Parallel()
	s := stack(t, split)
	parts := []*rig.Process{s.Parts["api"], s.Parts["worker"]}
	tenant := newTenant(s)
	files, err := filepath.Glob(filepath.Join(rig.Root(), "testdata", "maps", "*.json"))
	require.NoError(t, err)
	answers := map[int]int{}
	call := func(method, path string, body any, told []byte, headers ...string) rig.Answer {
		begun := time.Now()
		a := tenant.User.Do(method, path, body, headers...)
		require.NoError(t, a.Err, "%s %s: %s", method, path, told)
		require.Less(t, a.Status, http.StatusInternalServerError, "%s %s: %s\n%s", method, path, told, a.Body)
		require.Less(t, time.Since(begun), mutantLimit, "%s %s: %s", method, path, told)
		require.NotEqual(t, http.StatusTooManyRequests, a.Status, "%s", a.Body)
		answers[a.Status]++
		return a
	}
	for i, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		var tc struct{ Map json.RawMessage }
		require.NoError(t, json.Unmarshal(raw, &tc))
		m := mutator{rand.New(rand.NewPCG(uint64(i), 11))} // a seed makes the same definitions each time
		for n, mutant := range [][]byte{m.json(t, tc.Map), m.json(t, tc.Map), m.json(t, tc.Map), m.bytes(tc.Map), m.bytes(tc.Map)} {
			media := "Content-Type: application/json"
			if n == 4 { // JSON is YAML
				media = "Content-Type: application/yaml"
			}
			call(http.MethodPost, "/v1/maps/validate", mutant, mutant, media)
			made := call(http.MethodPost, "/v1/maps?publish=true", mutant, mutant, media)
			if made.Status != http.StatusCreated {
				continue
			}
			path := made.Header.Get("Location")
			call(http.MethodGet, path+"/graph", nil, mutant)
			call(http.MethodPost, path+"/trigger", map[string]any{"payload": map[string]any{}}, mutant, "Prefer: wait=0")
		}
	}
	for _, status := range []int{http.StatusOK, http.StatusCreated, http.StatusBadRequest, http.StatusUnprocessableEntity} {
		require.Greater(t, answers[status], 10, "%v", answers)
	}
	for _, p := range parts {
		requireAlive(t, s, p)
	}
	trigger := publish(t, tenant, "Ordinary", `[{"id":"sum","type":"transform","expr":"${[range(3)] | add}"}]`)
	e := mapExecutionOf(t, tenant.Runtime.Do(http.MethodPost, trigger, map[string]any{}, "Prefer: wait=60"), http.StatusOK)
	require.Equal(t, "3", string(e.Output))
}
