package expression_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agentruntime/internal/base/exactjson"
	"agentruntime/internal/maps/expression"
)

func BenchmarkEval(b *testing.B) {
	large := `{"list":[` + strings.Repeat(`{"name":"x","n":1.10},`, 140_000) + `1],"id":7}`
	for name, source := range map[string]string{"path": `"${trigger_data.id}"`, "comparison": `"${trigger_data.id > 5}"`, "constructor": `"${ {a: trigger_data.id} }"`} {
		tree, err := exactjson.Tree([]byte(source))
		if err != nil {
			b.Fatal(err)
		}
		v, _ := expression.NewValue(tree)
		for size, data := range map[string]string{"small": `{"id":7,"list":[]}`, "3MiB": large} {
			roots := expression.Roots{TriggerData: json.RawMessage(data)}
			b.Run(name+"/"+size, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := v.Eval(b.Context(), unbounded{}, roots); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
