package overlay_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/provider/overlay"
)

func of(version, actions string) json.RawMessage {
	return json.RawMessage(`{"overlay":"` + version + `","info":{"title":"t","version":"1"},"actions":[` + actions + `]}`)
}

func tree(t *testing.T, text string) map[string]any {
	t.Helper()
	v, err := exactjson.Decode(json.RawMessage(text))
	require.NoError(t, err)
	return v.(map[string]any)
}

func apply(t *testing.T, version, actions, document string, limits overlay.Limits) (string, []string, *overlay.Fault) {
	t.Helper()
	o, faults := overlay.Read(of(version, actions))
	require.Empty(t, faults)
	root := tree(t, document)
	unused, f := o.Apply(root, limits)
	out, err := exactjson.Encode(root)
	require.NoError(t, err)
	return string(out), unused, f
}

func most() overlay.Limits {
	return overlay.Limits{Work: 1_000_000, Values: 100_000, More: func() bool { return true }}
}

func TestActionsChangeTheDocument(t *testing.T) {
	t.Parallel()
	const doc = `{"info":{"title":"Old","n":9007199254740993},"tags":[{"name":"a"},{"name":"b"},{"name":"c"}],"paths":{"/x":{"get":{"tags":["r"]},"post":{}},"/y":{"get":{"deprecated":true}}}}`
	for name, c := range map[string]struct{ version, actions, want string }{
		"objects are merged": {
			"1.0.0", `{"target":"$.info","update":{"title":"New","contact":{"name":"Me"}}}`,
			strings.Replace(doc, `"title":"Old"`, `"title":"New","contact":{"name":"Me"}`, 1),
		},
		"arrays within are joined":    {"1.0.0", `{"target":"$.paths['/x']","update":{"get":{"tags":["s"]}}}`, strings.Replace(doc, `["r"]`, `["r","s"]`, 1)},
		"an entry is appended":        {"1.0.0", `{"target":"$.tags","update":{"name":"d"}}`, strings.Replace(doc, `{"name":"c"}`, `{"name":"c"},{"name":"d"}`, 1)},
		"entries are appended":        {"1.1.0", `{"target":"$.tags","update":[{"name":"d"},{"name":"e"}]}`, strings.Replace(doc, `{"name":"c"}`, `{"name":"c"},{"name":"d"},{"name":"e"}`, 1)},
		"removed by name":             {"1.0.0", `{"target":"$.paths['/y']","remove":true}`, strings.Replace(doc, `,"/y":{"get":{"deprecated":true}}`, ``, 1)},
		"removed from an array":       {"1.0.0", `{"target":"$.tags[?@.name != 'b']","remove":true}`, strings.Replace(doc, `[{"name":"a"},{"name":"b"},{"name":"c"}]`, `[{"name":"b"}]`, 1)},
		"remove counts before update": {"1.0.0", `{"target":"$.tags[0]","remove":true,"update":{"x":1}}`, strings.Replace(doc, `{"name":"a"},`, ``, 1)},
		"every operation":             {"1.0.0", `{"target":"$.paths.*['get','post']","update":{"x-a":1}}`, `{"info":{"title":"Old","n":9007199254740993},"tags":[{"name":"a"},{"name":"b"},{"name":"c"}],"paths":{"/x":{"get":{"tags":["r"],"x-a":1},"post":{"x-a":1}},"/y":{"get":{"deprecated":true,"x-a":1}}}}`},
		"at any depth, each once":     {"1.0.0", `{"target":"$..*..[?@.deprecated == true]","remove":true}`, strings.Replace(doc, `"/y":{"get":{"deprecated":true}}`, `"/y":{}`, 1)},
		"by a pattern":                {"1.0.0", `{"target":"$.tags[?match(@.name, '[ab]')]","update":{"x":true}}`, strings.Replace(doc, `{"name":"a"},{"name":"b"}`, `{"name":"a","x":true},{"name":"b","x":true}`, 1)},
		"a primitive":                 {"1.1.0", `{"target":"$.info.title","update":"New"}`, strings.Replace(doc, `"Old"`, `"New"`, 1)},
		"a copy":                      {"1.1.0", `{"target":"$.paths['/x'].post","copy":"$.paths['/y'].get"}`, strings.Replace(doc, `"post":{}`, `"post":{"deprecated":true}`, 1)},
		"one after the other":         {"1.0.0", `{"target":"$","update":{"paths":{"/z":{}}}},{"target":"$.paths['/z']","update":{"get":{}}}`, strings.Replace(doc, `"/y":`, `"/z":{"get":{}},"/y":`, 1)},
		"the last entry, and a slice": {"1.0.0", `{"target":"$.tags[-1]","update":{"l":1}},{"target":"$.tags[0:1]","update":{"f":1}}`, strings.Replace(doc, `{"name":"a"},{"name":"b"},{"name":"c"}`, `{"name":"a","f":1},{"name":"b"},{"name":"c","l":1}`, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, unused, f := apply(t, c.version, c.actions, doc, most())
			require.Nil(t, f)
			require.Empty(t, unused)
			require.JSONEq(t, c.want, out)
			require.Contains(t, out, "9007199254740993", "numbers keep their digits")
		})
	}
}

func TestActionWithoutTargetIsUnused(t *testing.T) {
	t.Parallel()
	_, unused, f := apply(t, "1.0.0", `{"target":"$.info","update":{}},{"target":"$.none","remove":true},{"target":"$.paths.*.get","update":{}}`, `{"info":{}}`, most())
	require.Nil(t, f)
	require.Equal(t, []string{"/actions/1", "/actions/2"}, unused)
}

func TestUpdateOfManyPlacesSharesNothing(t *testing.T) {
	t.Parallel()
	out, _, f := apply(t, "1.0.0", `{"target":"$.a.*","update":{"p":[1]}},{"target":"$.a.x.p","update":2}`, `{"a":{"x":{},"y":{}}}`, most())
	require.Nil(t, f)
	require.JSONEq(t, `{"a":{"x":{"p":[1,2]},"y":{"p":[1]}}}`, out)
}

func TestActionThatCannotBeAppliedIsNamed(t *testing.T) {
	t.Parallel()
	for actions, want := range map[string]string{
		`{"target":"$.info","update":{}},{"target":"$.info","update":1}`: "/actions/1/update type",
		`{"target":"$","remove":true}`:                                   "/actions/0/target root",
		`{"target":"$.info.title","update":{}}`:                          "/actions/0/update type",
		`{"target":"$.info","copy":"$.none"}`:                            "/actions/0/copy copy",
		`{"target":"$.info","copy":"$.*"}`:                               "/actions/0/copy copy",
	} {
		_, _, f := apply(t, "1.1.0", actions, `{"info":{"title":"t"},"tags":[]}`, most())
		require.NotNil(t, f, actions)
		require.Equal(t, want, f.Path+" "+f.Rule)
	}
	deeper := strings.Repeat(`{"target":"$.info","copy":"$"},`, exactjson.MaxDepth) + `{"target":"$.info","update":{}}`
	_, _, f := apply(t, "1.1.0", deeper, `{"info":{"title":"t"},"tags":[]}`, most())
	require.NotNil(t, f, "the document would nest too deep")
	require.Equal(t, overlay.RuleWork, f.Rule)
	_, _, f = apply(t, "1.0.0", `{"target":"$.info.title","update":"x"}`, `{"info":{"title":"t"}}`, most())
	require.Equal(t, "/actions/0/update", f.Path)
}

func TestMalformedOverlayIsRefused(t *testing.T) {
	t.Parallel()
	ok := `{"target":"$.info","update":{}}`
	for text, want := range map[string]string{
		`[]`:                    " type",
		string(of("2.0.0", ok)): "/overlay version",
		string(of("1.2.0", ok)): "/overlay version",
		string(of("1.0.0", "")): "/actions required",
		string(of("1.0.0", `{"target":"$.info"}`)):                                             "/actions/0 required",
		string(of("1.0.0", `{"update":{}}`)):                                                   "/actions/0/target required",
		string(of("1.0.0", ok+`,{"target":"info","update":{}}`)):                               "/actions/1/target jsonpath",
		string(of("1.0.0", `{"target":"$.info","updat":{},"remove":true}`)):                    "/actions/0/updat unknown_field",
		string(of("1.0.0", `{"target":"$.info","remove":"yes"}`)):                              "/actions/0/remove type",
		string(of("1.0.0", `{"target":"$.info","copy":"$.tags"}`)):                             "/actions/0/copy version",
		string(of("1.0.0", `{"target":"$[?match(@.a, @.b)]","remove":true}`)):                  "/actions/0/target jsonpath",
		string(of("1.0.0", `{"target":"$[?search(@.a, '((a{99}){9}){9}')]","remove":true}`)):   "/actions/0/target jsonpath",
		string(of("1.0.0", `{"target":"$[?@.a == $.b]","remove":true}`)):                       "/actions/0/target jsonpath",
		string(of("1.0.0", `{"target":"$[?@..a..b]","remove":true}`)):                          "/actions/0/target jsonpath",
		string(of("1.0.0", `{"target":"$[?@['a','b']]","remove":true}`)):                       "/actions/0/target jsonpath",
		string(of("1.0.0", `{"target":"$.`+strings.Repeat("a", 2048)+`","remove":true}`)):      "/actions/0/target maxLength",
		string(of("1.0.0", strings.Repeat(ok+",", 1000)+ok)):                                   "/actions max_items",
		string(of("1.0.0", `{"target":"$.info","update":"`+strings.Repeat("x", 256<<10)+`"}`)): " size",
		`{"overlay":"1.0.0","actions":[` + ok + `]}`:                                           "/info/title required",
	} {
		_, faults := overlay.Read(json.RawMessage(text))
		require.NotEmpty(t, faults, "%.200s", text)
		require.Equal(t, want, faults[0].Path+" "+faults[0].Rule, "%.200s", text)
	}
}

// Overlays that would take hours, or gigabytes, end at their bounds, and the action is named.
func TestCostlyOverlayEndsAtItsBounds(t *testing.T) {
	t.Parallel()
	var doc strings.Builder
	doc.WriteString(`{"info":{"description":"` + strings.Repeat("a", 1<<20) + `"},"paths":{`)
	for i := range 5000 {
		fmt.Fprintf(&doc, `"/p%d":{"get":{"tags":["a","b"],"parameters":[{"name":"n","schema":{"type":"string"}}]}},`, i)
	}
	doc.WriteString(`"/z":{}}}`)
	many := func(action string, n int) string { return strings.TrimSuffix(strings.Repeat(action+",", n), ",") }
	for name, actions := range map[string]string{
		"descents again and again":   many(`{"target":"$..[?@.none]","remove":true}`, 1000),
		"nested descents":            `{"target":"$..*..*..*..*","remove":true}`,
		"a filter on every value":    many(`{"target":"$..[?@..x]","remove":true}`, 1000),
		"a pattern on a long text":   many(`{"target":"$[?search(@.description, '(a|aa)+$b')]","remove":true}`, 1000),
		"the length of a long text":  many(`{"target":"$[?length(@.description) == 1]","remove":true}`, 1000),
		"doubling by copies":         many(`{"target":"$.paths","update":{"x":{"a":[1]}}},{"target":"$.paths.x.a","copy":"$.paths.x.a"}`, 60),
		"a large value everywhere":   `{"target":"$.paths.*","update":{"x":[` + many("1", 1000) + `]}}`,
		"entries removed one by one": many(`{"target":"$.paths.*.get.tags[*]","remove":true},{"target":"$.paths.*.get","update":{"tags":[`+many(`"a"`, 50)+`]}}`, 20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, faults := overlay.Read(of("1.1.0", actions))
			require.Empty(t, faults)
			began := time.Now()
			_, f := o.Apply(tree(t, doc.String()), most())
			require.NotNil(t, f)
			require.Equal(t, overlay.RuleWork, f.Rule)
			require.Regexp(t, `^/actions/\d+$`, f.Path)
			require.Less(t, time.Since(began), time.Minute, "a million units are about a second")
		})
	}
	o, _ := overlay.Read(of("1.0.0", many(`{"target":"$..[?@.none]","remove":true}`, 1000)))
	l := most()
	l.More = func() bool { return false }
	_, f := o.Apply(tree(t, doc.String()), l)
	require.NotNil(t, f, "it ends when the caller has left")
}

// The files of a document may lead back to it. A walk through it ends.
func TestDocumentThatLeadsBackToItselfEndsTheWalk(t *testing.T) {
	t.Parallel()
	for _, actions := range []string{
		`{"target":"$..none","remove":true}`, `{"target":"$..[?@.none]","remove":true}`, `{"target":"$[?@..none]","remove":true}`, `{"target":"$.info","copy":"$.paths"}`,
	} {
		o, faults := overlay.Read(of("1.1.0", actions))
		require.Empty(t, faults)
		root := tree(t, `{"info":{},"a":[1]}`)
		root["paths"] = root
		_, f := o.Apply(root, most())
		require.NotNil(t, f, actions)
		require.Equal(t, overlay.RuleWork, f.Rule)
	}
}
