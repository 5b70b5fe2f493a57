package governance

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/test/oracle"
	"agentruntime/test/rig"
)

// Numbers of thirty digits, just at and around a threshold.
const (
	threshold = "100000000000000000000.0000000001"
	below     = "100000000000000000000.00000000009999999999"
	above     = "100000000000000000000.0000000001000000001"
)

// TestArgumentDisguisedDoesNotPassThreshold sends each text as it stands, to evaluate
// and to run, under a policy that blocks above a threshold. What the policy cannot
// judge counts as above it.
func TestArgumentDisguisedDoesNotPassThreshold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	greater := func(field, value string) m {
		return m{"conditions": []m{{"field": field, "operator": "greater", "value": json.Number(value)}}}
	}
	w.policy(with(rule("large", "block", mediumWrite), greater("args.amount", threshold)))
	w.policy(with(rule("large order", "block", lowWrite), greater("args.order.total", "100")))
	w.policy(with(rule("large item", "block", slug+":medium_read"), greater("args.items.amount", "100")))
	w.policy(with(rule("unknown field", "block", lowRead), greater("args.secret_flag", "100")))

	const runs, invalid, malformed = "executed", "INVALID_ARGS", "INVALID_JSON"
	for _, c := range []struct {
		name, verb, args string
		decision         string // of evaluate; "" where it is refused as well
		run              string // what the run says: executed or a code
	}{
		{"just below", mediumWrite, `{"amount":` + below + `}`, "allow", runs},
		{"at the threshold", mediumWrite, `{"amount":` + threshold + `}`, "allow", runs},
		{"just above", mediumWrite, `{"amount":` + above + `}`, "block", "GOVERNANCE_BLOCKED"},
		{"just above, with an exponent", mediumWrite, `{"amount":1000000000000000000000000000001000000001E-19}`, "block", "GOVERNANCE_BLOCKED"},
		{"just below, with an exponent", mediumWrite, `{"amount":1000000000000000000000000000000999999999E-19}`, "allow", runs},
		{"above, with an exponent", mediumWrite, `{"amount":1.000000000000000000000000000001000000001e20}`, "block", "GOVERNANCE_BLOCKED"},
		{"far above", mediumWrite, `{"amount":1e400}`, "block", "GOVERNANCE_BLOCKED"},
		{"beyond any number", mediumWrite, `{"amount":1e401}`, "", malformed},
		{"beyond any exponent", mediumWrite, `{"amount":1e999999999}`, "", malformed},
		{"a negative number", mediumWrite, `{"amount":-1}`, "allow", runs},
		{"minus zero", mediumWrite, `{"amount":-0}`, "allow", runs},
		{"far below", mediumWrite, `{"amount":-1e400}`, "allow", runs},
		{"as a string", mediumWrite, `{"amount":"1"}`, "block", "GOVERNANCE_BLOCKED"},
		{"an empty string", mediumWrite, `{"amount":""}`, "block", "GOVERNANCE_BLOCKED"},
		{"no number as a string", mediumWrite, `{"amount":"NaN"}`, "block", "GOVERNANCE_BLOCKED"},
		{"no number", mediumWrite, `{"amount":NaN}`, "", malformed},
		{"infinite", mediumWrite, `{"amount":Infinity}`, "", malformed},
		{"hexadecimal", mediumWrite, `{"amount":0x10}`, "", malformed},
		{"with a plus", mediumWrite, `{"amount":+1}`, "", malformed},
		{"with a leading zero", mediumWrite, `{"amount":01}`, "", malformed},
		{"null", mediumWrite, `{"amount":null}`, "block", "GOVERNANCE_BLOCKED"},
		{"missing", mediumWrite, `{}`, "block", "GOVERNANCE_BLOCKED"},
		{"a boolean", mediumWrite, `{"amount":true}`, "block", "GOVERNANCE_BLOCKED"},
		{"in an array", mediumWrite, `{"amount":[1]}`, "block", "GOVERNANCE_BLOCKED"},
		{"an empty array", mediumWrite, `{"amount":[]}`, "block", "GOVERNANCE_BLOCKED"},
		{"in an object", mediumWrite, `{"amount":{"amount":1}}`, "block", "GOVERNANCE_BLOCKED"},
		{"named in another case", mediumWrite, `{"Amount":1}`, "block", "GOVERNANCE_BLOCKED"},
		{"twice, the small one last", mediumWrite, `{"amount":` + above + `,"amount":1}`, "", malformed},
		{"twice, the small one first", mediumWrite, `{"amount":1,"amount":` + above + `}`, "", malformed},
		{"twice, once escaped", mediumWrite, `{"amount":1,"\u0061mount":` + above + `}`, "", malformed},
		{"beside one in another case", mediumWrite, `{"amount":1,"AMOUNT":` + above + `}`, "block", "GOVERNANCE_BLOCKED"},
		{"named with an escape", mediumWrite, `{"\u0061mount":` + above + `}`, "block", "GOVERNANCE_BLOCKED"},
		{"named with a dot", mediumWrite, `{"order.total":1,"amount":1}`, "allow", invalid},
		{"with a NUL in its name", mediumWrite, `{"amount\u0000":1}`, "", malformed},
		{"with half a character", mediumWrite, `{"amount":1,"note":"\ud800"}`, "", malformed},
		{"after the object", mediumWrite, `{"amount":` + above + `}{"amount":1}`, "", malformed},
		{"with more digits than a number has", mediumWrite, `{"amount":` + strings.Repeat("9", 65) + `}`, "", malformed},

		{"nested, below", lowWrite, `{"order":{"total":100}}`, "allow", runs},
		{"nested, above", lowWrite, `{"order":{"total":100.01}}`, "block", "GOVERNANCE_BLOCKED"},
		{"nested, missing", lowWrite, `{"order":{}}`, "block", "GOVERNANCE_BLOCKED"},
		{"nested in nothing", lowWrite, `{}`, "block", "GOVERNANCE_BLOCKED"},
		{"nested in null", lowWrite, `{"order":null}`, "block", "GOVERNANCE_BLOCKED"},
		{"nested in an array", lowWrite, `{"order":[{"total":101}]}`, "block", "GOVERNANCE_BLOCKED"},
		{"nested in an empty array", lowWrite, `{"order":[]}`, "block", "GOVERNANCE_BLOCKED"},
		{"nested in a string", lowWrite, `{"order":"{\"total\":1}"}`, "block", "GOVERNANCE_BLOCKED"},
		{"nested, twice", lowWrite, `{"order":{"total":101,"total":1}}`, "", malformed},

		{"all elements below", slug + ":medium_read", `{"items":[{"amount":1},{"amount":100}]}`, "allow", runs},
		{"one element above", slug + ":medium_read", `{"items":[{"amount":1},{"amount":101}]}`, "block", "GOVERNANCE_BLOCKED"},
		{"one element without", slug + ":medium_read", `{"items":[{"amount":1},{}]}`, "block", "GOVERNANCE_BLOCKED"},
		{"one element with a string", slug + ":medium_read", `{"items":[{"amount":1},{"amount":"1"}]}`, "block", "GOVERNANCE_BLOCKED"},
		{"no elements", slug + ":medium_read", `{"items":[]}`, "block", "GOVERNANCE_BLOCKED"},
		{"an object in the place of the array", slug + ":medium_read", `{"items":{"amount":1}}`, "allow", invalid},
		{"an object above", slug + ":medium_read", `{"items":{"amount":101}}`, "block", "GOVERNANCE_BLOCKED"},

		{"a field that the schema does not have, absent", lowRead, `{}`, "allow", runs},
		{"a field that the schema does not have, above", lowRead, `{"secret_flag":101}`, "block", "GOVERNANCE_BLOCKED"},
		{"a field that the schema does not have, as a string", lowRead, `{"secret_flag":"101"}`, "block", "GOVERNANCE_BLOCKED"},
		{"a field that the schema does not have, below", lowRead, `{"secret_flag":1}`, "allow", invalid},

		{"arguments that are an array", mediumWrite, `[1]`, "", "VALIDATION_ERROR"},
		{"arguments that are a string", mediumWrite, `"{\"amount\":1}"`, "", "VALIDATION_ERROR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			execution := id()
			evaluation := w.Runtime.Do(http.MethodPost, "/v1/runtime/governance/evaluate", []byte(`{"verb":"`+c.verb+`","args":`+c.args+`}`))
			ran := w.send([]byte(`{"verb":"` + c.verb + `","execution_id":"` + execution + `","args":` + c.args + `}`))
			if c.decision == "" {
				refused(t, evaluation, http.StatusBadRequest, c.run)
				refused(t, ran, http.StatusBadRequest, c.run)
				return
			}
			var e evaluated
			evaluation.Data(t, &e)
			require.Equal(t, c.decision, e.Decision, e.Reason)
			require.NotContains(t, e.Reason, "00000000009999")
			if c.run == runs {
				succeeded(t, ran)
				require.Contains(t, sentTo(w.bank), oracle.Canonical([]byte(c.args)))
				return
			}
			status := http.StatusForbidden
			if c.run == invalid {
				status = http.StatusUnprocessableEntity
			}
			refused(t, ran, status, c.run)
			require.NotContains(t, sentTo(w.bank), c.verb+oracle.Canonical([]byte(c.args)))
		})
	}
}

// sentTo lists the arguments of all that the bank got, and with their verbs.
func sentTo(b *bank) []string {
	var list []string
	for _, r := range b.all() {
		list = append(list, r.args, r.verb+r.args)
	}
	return list
}

// TestVerbNameDisguisedIsNotSent asks for a blocked verb under every name that might
// be taken for it. Names that are the verb in another spelling are judged as the verb is, the others are
// no verb, and none is sent.
func TestVerbNameDisguisedIsNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policy(rule("no", "block", mediumWrite))
	for name, verb := range lookAlikes(mediumWrite) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			evaluation := w.Runtime.Do(http.MethodPost, "/v1/runtime/governance/evaluate", m{"verb": verb, "args": m{"id": "x"}})
			ran := w.Runtime.Do(http.MethodPost, "/v1/runtime/actions/run", m{"verb": verb, "args": m{"id": "x"}})
			if slices.Contains(spellings(), name) {
				var e evaluated
				evaluation.Data(t, &e)
				require.Equal(t, "block", e.Decision)
				refused(t, ran, http.StatusForbidden, "GOVERNANCE_BLOCKED")
			} else {
				for _, a := range []rig.Answer{evaluation, ran} {
					require.Contains(t, []int{http.StatusBadRequest, http.StatusNotFound}, a.Status, "%s", a.Body)
				}
			}
			require.Zero(t, w.bank.effects())
		})
	}
}

// spellings are those of the lookAlikes that are the verb itself: its name in other letters, and as models
// know it.
func spellings() []string { return []string{"upper case", "a capital", "tool name"} }

// lookAlikes are names that a reader, or a careless comparison, takes for the verb.
func lookAlikes(verb string) map[string]string {
	provider, name, _ := strings.Cut(verb, ":")
	return map[string]string{
		"upper case":           strings.ToUpper(verb),
		"a capital":            strings.ToUpper(verb[:1]) + verb[1:],
		"modifier colon":       provider + "\ua789" + name,
		"full-width colon":     provider + "\uff1a" + name,
		"ratio for a colon":    provider + "\u2236" + name,
		"trailing space":       verb + " ",
		"leading space":        " " + verb,
		"trailing line feed":   verb + "\n",
		"trailing NUL":         verb + "\x00",
		"no-break space":       verb + "\u00a0",
		"zero-width space":     provider + ":\u200b" + name,
		"right-to-left mark":   verb + "\u200f",
		"soft hyphen":          provider + ":" + name[:1] + "\u00ad" + name[1:],
		"cyrillic letter":      strings.Replace(verb, "e", "\u0435", 1),
		"full-width letter":    strings.Replace(verb, "e", "\uff45", 1),
		"combining mark":       verb + "\u0301",
		"tool name":            strings.Replace(verb, ":", "__", 1),
		"two colons":           provider + "::" + name,
		"a colon more":         verb + ":",
		"per cent":             provider + "%3a" + name,
		"slash":                provider + "/" + name,
		"dot":                  provider + "." + name,
		"with a query":         verb + "?x=1",
		"with a fragment":      verb + "#",
		"a path up":            provider + ":x/../" + name,
		"a glob":               provider + ":*",
		"only the name":        name,
		"only the provider":    provider + ":",
		"no provider":          ":" + name,
		"a hyphen for a score": provider + ":" + strings.ReplaceAll(name, "_", "-"),
	}
}

// TestRunMemberInAnotherCaseIsRefused is refused: the verb that is judged is the one that runs.
func TestRunMemberInAnotherCaseIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policy(rule("no", "block", mediumWrite))
	for name, body := range map[string]string{
		"verb twice":              `{"verb":"bank:low_write","verb":"bank:medium_write","args":{}}`,
		"verb and VERB":           `{"verb":"bank:low_write","VERB":"bank:medium_write","args":{}}`,
		"args twice":              `{"verb":"bank:low_write","args":{},"args":{"id":"x"}}`,
		"args and Args":           `{"verb":"bank:low_write","args":{},"Args":{"id":"x"}}`,
		"verb with a long s":      `{"verb":"bank:low_write","arg` + "\u017f" + `":{},"args":{}}`,
		"escaped verb":            `{"verb":"bank:low_write","\u0076erb":"bank:medium_write","args":{}}`,
		"metadata twice":          `{"verb":"bank:low_write","args":{},"metadata":{},"metadata":{"dryRun":true}}`,
		"dryRun and dryrun":       `{"verb":"bank:low_write","args":{},"dryRun":true,"dryrun":false}`,
		"dryRun twice inside":     `{"verb":"bank:low_write","args":{},"metadata":{"dryRun":true,"dryRun":false}}`,
		"a member nobody knows":   `{"verb":"bank:low_write","args":{},"approved":true}`,
		"an approval id":          `{"verb":"bank:low_write","args":{},"approval_id":"appr_1"}`,
		"a decision":              `{"verb":"bank:low_write","args":{},"decision":"allow"}`,
		"a risk level":            `{"verb":"bank:low_write","args":{},"risk_level":"low"}`,
		"a byte order mark first": "\ufeff" + `{"verb":"bank:low_write","args":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := w.send([]byte(body))
			require.Equal(t, http.StatusBadRequest, a.Status, "%s", a.Body)
			require.Zero(t, w.bank.effects())
		})
	}
}
