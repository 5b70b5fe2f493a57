package stepmachine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/maps/expression"
	"agentruntime/internal/maps/mapdef"
	"agentruntime/test/simulate"
)

// sandbox evaluates in this process: the cases are ours.
type sandbox struct{}

func (sandbox) Spend(int) bool { return true }

func (sandbox) Run(ctx context.Context, source string, roots expression.Roots) ([]json.RawMessage, error) {
	e, wrong := expression.Parse(source)
	if wrong != nil {
		return nil, wrong
	}
	return e.RunUnbounded(ctx, roots)
}

// named is a case of testdata with its name.
type named struct {
	name string
	simulate.Case
}

// cases reads testdata: each file has the cases of one subject, by name. The members of a
// definition that are always the same are left out there.
func cases(t *testing.T) []named {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var list []named
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		raw, faults := mapdef.FromYAML(text)
		require.Empty(t, faults, file)
		var read map[string]simulate.Case
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		require.NoError(t, dec.Decode(&read), file)
		for name, c := range read {
			c.Map = complete(t, c.Map)
			for id, m := range c.Maps {
				c.Maps[id] = complete(t, m)
			}
			subject := strings.TrimSuffix(filepath.Base(file), ".yaml")
			list = append(list, named{subject + "/" + name, c})
		}
	}
	slices.SortFunc(list, func(a, b named) int { return strings.Compare(a.name, b.name) })
	return list
}

// complete adds what each definition of testdata has, and checks it.
func complete(t *testing.T, m json.RawMessage) json.RawMessage {
	t.Helper()
	require.NotEmpty(t, m)
	m = append([]byte(`{"schema_version":"1","name":"case",`), m[1:]...)
	def, faults := mapdef.Read(m)
	require.Empty(t, faults)
	wrong, _ := def.Check()
	require.Empty(t, wrong)
	return m
}

func run(t *testing.T, c *simulate.Case, opts simulate.Options) *simulate.Report {
	t.Helper()
	opts.Sandbox = sandbox{}
	r, err := simulate.Run(t.Context(), c, opts)
	if r != nil && (err != nil || t.Failed()) {
		t.Log(strings.Join(r.Trace, "\n"))
	}
	require.NoError(t, err)
	return r
}

// TestCases runs each case of testdata in the order in which things are asked for.
func TestCases(t *testing.T) {
	t.Parallel()
	for _, c := range cases(t) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := run(t, &c.Case, simulate.Options{Store: true})
			defer func() {
				if t.Failed() {
					t.Log("\n" + strings.Join(r.Trace, "\n"))
				}
			}()
			expect(t, &c.Case, r)
		})
	}
}

// expect compares what came of a case with what has to.
func expect(t *testing.T, c *simulate.Case, r *simulate.Report) {
	t.Helper()
	e := c.Expect
	require.Equal(t, e.Status, r.State.Status)
	if e.Output != nil {
		require.NotNil(t, r.Finish)
		require.JSONEq(t, string(e.Output), string(r.Output))
	}
	if e.Error != nil {
		require.NotNil(t, r.Finish)
		require.NotNil(t, r.Finish.Error)
		raw, err := exactjson.Encode(r.Finish.Error)
		require.NoError(t, err)
		var got map[string]any
		require.NoError(t, json.Unmarshal(raw, &got))
		for name, want := range e.Error {
			require.Equal(t, want, got[name], "error.%s", name)
		}
	}
	if e.WaitingFor != nil {
		raw, err := exactjson.Encode(r.State.WaitingFor)
		require.NoError(t, err)
		require.JSONEq(t, exactjson.Text(e.WaitingFor), string(raw))
	} else if r.Finish != nil {
		require.Nil(t, r.State.WaitingFor)
	}
	if e.Calls != nil {
		require.Equal(t, texts(e.Calls, c.Expect.CallsInAnyOrder), texts(r.Calls, c.Expect.CallsInAnyOrder))
	}
	if e.Actions > 0 {
		require.Equal(t, e.Actions, r.Finish.Actions)
	}
	if e.Skipped != nil {
		require.ElementsMatch(t, e.Skipped, r.Skipped)
	}
	if e.Changes != nil {
		require.Equal(t, exactjson.Text(normal(e.Changes)), exactjson.Text(normal(r.Changes)))
	}
	for _, line := range e.Trace {
		require.Contains(t, r.Trace, line)
	}
}

func texts(calls []simulate.Call, sorted bool) []string {
	list := []string{}
	for _, c := range calls {
		args, err := exactjson.Decode(c.Args)
		if err != nil {
			args = map[string]any{}
		}
		list = append(list, c.Verb+" "+exactjson.Text(args))
	}
	if sorted {
		slices.Sort(list)
	}
	return list
}

func normal(changes []simulate.Change) []any {
	var list []any
	for _, c := range changes {
		args, err := exactjson.Decode(c.Args)
		if err != nil {
			args = nil
		}
		list = append(list, map[string]any{"verb": c.Verb, "args": args, "depends_on": c.DependsOn})
	}
	return list
}
