package mapdef_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/maps/mapdef"
)

func TestYAMLMeansWhatItsJSONMeans(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, yaml, want string }{
		{"order and digits", "z: 1.10\na: 9007199254740993\n", `{"z":1.10,"a":9007199254740993}`},
		{"scalars", "a: true\nb: ~\nc:\nd: FALSE\ne: -1.5e3\n", `{"a":true,"b":null,"c":null,"d":false,"e":-1.5e3}`},
		{"texts that YAML 1.1 reads otherwise", "a: yes\nb: NO\nc: on\nd: 2026-01-01\ne: 12:30:00\nf: 1.2.3\n", `{"a":"yes","b":"NO","c":"on","d":"2026-01-01","e":"12:30:00","f":"1.2.3"}`},
		{"quoted", "a: '1'\nb: \"true\"\nc: |\n  x\n  y\nd: >\n  x\n  y\n'<<': 1\n", `{"a":"1","b":"true","c":"x\ny\n","d":"x y\n","<<":1}`},
		{"expressions", "a: ${trigger_data.x}\nb: \"${ {a: 1} }\"\n", `{"a":"${trigger_data.x}","b":"${ {a: 1} }"}`},
		{"flow", "{a: [1, {b: c}], 'd': null}", `{"a":[1,{"b":"c"}],"d":null}`},
		{"JSON is YAML", `{"a": [1, "x", {"b": null}]}`, `{"a":[1,"x",{"b":null}]}`},
		{"numbers as names", "1: a\ntrue: b\n", `{"1":"a","true":"b"}`},
		{"comments", "# one\na: 1 # two\n", `{"a":1}`},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, faults := mapdef.FromYAML([]byte(tc.yaml))
			require.Empty(t, faults)
			require.Equal(t, tc.want, string(got))
		})
	}
}

func TestYAMLKeepsNamesThatAreThereTwiceForReadToRefuse(t *testing.T) {
	t.Parallel()
	got, faults := mapdef.FromYAML([]byte("a: 1\na: 2\n"))
	require.Empty(t, faults)
	_, faults = mapdef.Read(got)
	require.Equal(t, "duplicate_name", faults[0].Rule)
}

func TestYAMLRefusesWhatJSONDoesNotHave(t *testing.T) {
	t.Parallel()
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n" +
		"d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\n"
	cases := []struct{ name, yaml, path, message string }{
		{"anchor", "a: &x 1\n", "/a", "anchors and aliases"},
		{"alias", "a: &x 1\nb: *x\n", "/a", "anchors and aliases"},
		{"bomb", bomb, "", ""},
		{"merge", "a:\n  <<: {b: 1}\n", "/a", "merge keys"},
		{"tag", "a: !!str 1\n", "/a", "tags"},
		{"own tag", "a: !x {b: 1}\n", "/a", "tags"},
		{"two documents", "a: 1\n---\nb: 2\n", "", "one document of YAML"},
		{"nothing", "", "", "one document of YAML"},
		{"a list as a name", "[1]: 2\n", "", "plain text"},
		{"hexadecimal", "a: 0x10\n", "/a", "numbers as in JSON"},
		{"octal", "a: 012\n", "/a", "numbers as in JSON"},
		{"underscores", "a: 1_000\n", "/a", "numbers as in JSON"},
		{"plus", "a: +1\n", "/a", "numbers as in JSON"},
		{"infinite", "a: .inf\n", "/a", "numbers as in JSON"},
		{"not a number", "a: .nan\n", "/a", "numbers as in JSON"},
		{"syntax", "a: [1\n", "", "is no valid YAML: did not find expected ',' or ']'"},
		{"tab", "a:\n\tb: 1\n", "", "is no valid YAML: found character that cannot start any token"},
		{"deep", strings.Repeat("[", 5_000) + strings.Repeat("]", 5_000), "", ""},
		{"large", "a: " + strings.Repeat("x", mapdef.MaxBytes), "", "at most"},
		{"grows", "a: \"" + strings.Repeat(`\0`, 100_000) + "\"", "", "at most"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, faults := mapdef.FromYAML([]byte(tc.yaml))
			require.NotEmpty(t, faults)
			if tc.message != "" {
				require.Equal(t, tc.path, faults[0].Path)
				require.Contains(t, faults[0].Message, tc.message)
			}
		})
	}
}
