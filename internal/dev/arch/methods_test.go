package arch

import (
	"go/ast"
	"slices"
	"testing"
)

// mostMethods bounds the methods of a type: beyond it a reader cannot say which of them a line may call.
const mostMethods = 60

// crowded are the types that have more methods than mostMethods. None is added.
func crowded() []string {
	return []string{
		"internal/action/run Service",
		"internal/agents/conversation Service",
		"internal/maps/stepmachine machine", // one file for each type of step, and the machine for them all
		"internal/provider/catalog Catalog",
		"internal/service/answering Answerer",
		"internal/tenant/account Service",
		"workflows mapRun",
	}
}

func TestTypesHaveFewMethods(t *testing.T) {
	t.Parallel()
	methods := map[string]int{}
	for _, file := range sourceFiles(t) {
		if !file.product() {
			continue
		}
		for _, d := range file.parsed(t).Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				methods[file.pkg+" "+receiver(f)]++
			}
		}
	}
	for name, n := range methods {
		if n > mostMethods && !slices.Contains(crowded(), name) {
			t.Errorf("%s has %d methods: split it by subject, at most %d", name, n, mostMethods)
		}
	}
}

// receiver returns the name of the type that a method belongs to.
func receiver(f *ast.FuncDecl) string {
	name := ""
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}
