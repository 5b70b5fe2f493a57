package testkit

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentruntime/internal/record/event"
)

// checkEvents makes every event that the tests of a binary emit fit the schema of its type, with
// no member that the schema does not list. One that does not fit panics: it is a bug of its
// producer, wherever that is.
func checkEvents() {
	compiled, members := map[event.Type]*jsonschema.Schema{}, map[event.Type]map[string]json.RawMessage{}
	for _, s := range event.Types() {
		compiler := jsonschema.NewCompiler()
		compiler.AssertFormat()
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.Schema()))
		must(err)
		must(compiler.AddResource(string(s.Type), doc))
		compiled[s.Type], err = compiler.Compile(string(s.Type))
		must(err)
		var listed struct{ Properties map[string]json.RawMessage }
		must(json.Unmarshal(s.Schema(), &listed))
		members[s.Type] = listed.Properties
	}
	event.Check(func(t event.Type, body []byte) {
		kind := event.SchemaType(t)
		if compiled[kind] == nil {
			panic(fmt.Sprintf("testkit: an event of the type %s, which has no schema", t))
		}
		if len(body) > event.MostBytes {
			panic(fmt.Sprintf("testkit: an event of %d bytes: %s", len(body), t))
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
		must(err)
		if err := compiled[kind].Validate(doc); err != nil {
			panic(fmt.Sprintf("testkit: the event %s does not fit its schema: %v", body, err))
		}
		for name := range doc.(map[string]any) {
			if members[kind][name] == nil {
				panic(fmt.Sprintf("testkit: the schema of %s does not list %s", t, name))
			}
		}
	})
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
