package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/action/governance"
	"agentruntime/internal/base/actor"
	"agentruntime/internal/provider/credential"
	"agentruntime/internal/record/audit"
)

// A word that two packages both name is declared once. These tests search the product
// code for second declarations.

// product reports whether the file is part of the service: not a test, not a development
// tool.
func (f sourceFile) product() bool {
	return !f.test() && !strings.HasPrefix(f.pkg, dev[:len(dev)-1]) && f.pkg != "cmd/agentruntime-dev" && f.pkg != "db/dbsqlc"
}

// parsed returns the syntax of a file.
func (f sourceFile) parsed(t *testing.T) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, f.path), nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	return file
}

// texts calls use with each string literal below the node, struct tags aside.
func texts(node ast.Node, use func(string)) {
	ast.Inspect(node, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok {
			texts(field.Type, use)
			return false
		}
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				use(text)
			}
		}
		return true
	})
}

func TestRolesAreDeclaredOnce(t *testing.T) {
	t.Parallel()
	for _, file := range sourceFiles(t) {
		// governance reads roles out of stored policies.
		if !file.product() || file.pkg == "internal/base/actor" || file.pkg == "internal/action/governance" {
			continue
		}
		texts(file.parsed(t), func(text string) {
			if actor.Role(text).Valid() {
				t.Errorf("%s names the role %q: use the constant of internal/base/actor", file.path, text)
			}
		})
	}
}

// Each kind of credential is a constant, and code that means a kind names the constant.
func TestCredentialKindsAreNamedByTheirConstants(t *testing.T) {
	t.Parallel()
	kinds := []credential.Kind{credential.APIKey, credential.Bearer, credential.Basic, credential.CustomHeader, credential.OAuth2, credential.WebhookSecret}
	// The same words with another meaning.
	others := map[string]string{
		"internal/provider/openapi/provider.go": "OpenAPI's own words for security schemes",
		"internal/provider/swagger/swagger.go":  "Swagger's own words for security schemes",
		"internal/record/audit/actions.go":      "an API key of a tenant, as the subject of a record",
		"internal/tenant/auth/secrets.go":       "an API key of a tenant, as the label of a hash",
	}
	for _, file := range sourceFiles(t) {
		if !file.product() || file.pkg == "internal/provider/credential" || others[file.path] != "" {
			continue
		}
		texts(file.parsed(t), func(text string) {
			if slices.Contains(kinds, credential.Kind(text)) {
				t.Errorf("%s names the credential kind %q: use the constant of internal/provider/credential", file.path, text)
			}
		})
	}
}

// vocabularies are the words that several packages name, and the package that declares
// them.
func vocabularies() []struct {
	name, home string
	words      []string
	// others are types of the product whose constants share words by chance.
	others []string
} {
	text := func(list any) []string {
		var out []string
		for i, v := 0, reflect.ValueOf(list); i < v.Len(); i++ {
			out = append(out, v.Index(i).String())
		}
		return out
	}
	return []struct {
		name, home string
		words      []string
		others     []string
	}{
		{
			"kinds of actors", "internal/base/actor",
			text([]actor.Kind{actor.Key, actor.User, actor.Agent, actor.Map, actor.Workflow, actor.System, actor.Operator}),
			// The subjects of records, and the types of steps.
			[]string{"internal/record/audit.Subject", "internal/maps/mapdef.Type"},
		},
		// The states of a run and of a delivery end in the same words.
		{"approval statuses", "internal/action/governance", text(governance.ApprovalStatuses()), []string{"internal/base/flow.State", "internal/base/flow.DeliveryState", "internal/agents/agentloop.Stop"}},
		{"approval kinds", "internal/action/governance", text(governance.ApprovalKinds()), nil},
		{
			"credential kinds", "internal/provider/credential",
			text([]credential.Kind{credential.APIKey, credential.Bearer, credential.Basic, credential.CustomHeader, credential.OAuth2, credential.WebhookSecret}), nil,
		},
	}
}

// The words are everyday words, so one constant is no second declaration; two constants of
// one type are.
func TestSharedWordsAreDeclaredOnce(t *testing.T) {
	t.Parallel()
	constants := map[string]map[string][]string{} // package → package.type → values
	for _, file := range sourceFiles(t) {
		if file.product() {
			if constants[file.pkg] == nil {
				constants[file.pkg] = map[string][]string{}
			}
			file.textConstants(t, constants[file.pkg])
		}
	}
	for _, v := range vocabularies() {
		for pkg, types := range constants {
			for name, values := range types {
				values = slices.DeleteFunc(slices.Clone(values), func(text string) bool { return !slices.Contains(v.words, text) })
				if pkg != v.home && len(values) > 1 && !slices.Contains(v.others, name) {
					t.Errorf("%s declares %s: the %s are declared in %s", name, strings.Join(values, ", "), v.name, v.home)
				}
			}
		}
	}
}

// textConstants adds the text constants and variables of the file by package and type.
func (f sourceFile) textConstants(t *testing.T, found map[string][]string) {
	t.Helper()
	ast.Inspect(f.parsed(t), func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		kind := "text"
		if named, ok := spec.Type.(*ast.Ident); ok {
			kind = named.Name
		}
		for _, value := range spec.Values {
			if lit, ok := value.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					found[f.pkg+"."+kind] = append(found[f.pkg+"."+kind], text)
				}
			}
		}
		return true
	})
}

// auditHome declares the audit actions.
const auditHome = "internal/record/audit"

var (
	dottedWords = regexp.MustCompile(`^[a-z_]+\.[a-z_]*$`)
	sqlText     = regexp.MustCompile(`'([a-z_]+\.[a-z_]+)'`)
)

// auditWords knows what looks like an audit action.
type auditWords struct{ actions, events, subjects map[string]bool }

func newAuditWords() auditWords {
	w := auditWords{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, row := range audit.Actions() {
		w.actions[string(row.Action)], w.events[row.Event] = true, true
		subject, _, _ := strings.Cut(string(row.Action), ".")
		w.subjects[subject] = true
	}
	return w
}

// looksLike reports whether a text may be an audit action, or the beginning of one. Public
// events have similar names.
func (w auditWords) looksLike(text string) bool {
	subject, _, _ := strings.Cut(text, ".")
	return dottedWords.MatchString(text) && w.subjects[subject] && !w.events[text]
}

// Every audit action is a constant of the table. Go code names the constant, never the
// text, so that a search for the constant finds every place that writes it. SQL can only
// name the text.
func TestAuditActionsAreWrittenFromTheTable(t *testing.T) {
	t.Parallel()
	words := newAuditWords()
	values := actionConstants(t)
	written := map[string]bool{}
	for _, file := range sourceFiles(t) {
		if !file.product() || file.pkg == auditHome || file.pkg == "internal/record/event" {
			continue
		}
		syntax := file.parsed(t)
		texts(syntax, func(text string) {
			if words.looksLike(text) {
				t.Errorf("%s contains %q: use the constants of %s/actions.go", file.path, text, auditHome)
			}
		})
		ast.Inspect(syntax, func(n ast.Node) bool {
			if name := auditName(n); values[name] != "" {
				written[values[name]] = true
			}
			if call, ok := n.(*ast.CallExpr); ok && auditName(call.Fun) == "Action" {
				t.Errorf("%s makes an audit action of a text: use the constants of %s/actions.go", file.path, auditHome)
			}
			return true
		})
	}
	for _, text := range sqlTexts(t) {
		if words.looksLike(text) {
			require.True(t, words.actions[text], "SQL writes %q, which has no row in %s/actions.go", text, auditHome)
			written[text] = true
		}
	}
	for action := range words.actions {
		require.True(t, written[action], "%s is in the table and is written nowhere", action)
	}
}

// auditName returns Name where the node is audit.Name.
func auditName(n ast.Node) string {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if pkg, ok := sel.X.(*ast.Ident); !ok || pkg.Name != "audit" {
		return ""
	}
	return sel.Sel.Name
}

// actionConstants returns the values of the constants of type audit.Action.
func actionConstants(t *testing.T) map[string]string {
	t.Helper()
	values := map[string]string{}
	file := sourceFile{path: auditHome + "/actions.go"}.parsed(t)
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Action" {
				texts(spec, func(text string) { values[spec.Names[0].Name] = text })
			}
		}
		return true
	})
	require.Len(t, values, len(audit.Actions()), "each constant has one row in the table")
	return values
}

// sqlTexts returns the texts with a dot in the queries and in the functions of the
// database.
func sqlTexts(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"queries/*.sql", "db/migrations/*.sql", "db/functions/*.sql"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, path := range files {
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			for _, text := range sqlText.FindAllStringSubmatch(string(raw), -1) {
				found = append(found, text[1])
			}
		}
	}
	require.NotEmpty(t, found)
	return found
}
