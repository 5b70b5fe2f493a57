// Package arch checks which package may import which, as tests. The linter knows
// most of them too, for the editor; this table is the one that also fails on a
// package nobody has placed yet. It has no product code.
package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module = "agentruntime"
	root   = "../../.."
)

// A sourceFile is a Go file of this module with what the rules ask about it.
type sourceFile struct {
	path    string // from the root, with slashes
	pkg     string // directory from the root, with slashes
	imports []string
}

// test reports whether the file is only compiled for tests; those may import what
// they like. So may the root, which has no package of its own to protect.
func (f sourceFile) test() bool {
	return strings.HasSuffix(f.path, "_test.go") || strings.HasPrefix(f.pkg, "test/") || f.pkg == "."
}

func sourceFiles(t *testing.T) []sourceFile {
	t.Helper()
	var files []sourceFile
	walk := func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && rel != "." && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata" || otherModule(path)) {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		files = append(files, sourceFile{
			path:    filepath.ToSlash(rel),
			pkg:     filepath.ToSlash(filepath.Dir(rel)),
			imports: importPaths(t, parsed),
		})
		return nil
	}
	require.NoError(t, filepath.WalkDir(root, walk))
	require.NotEmpty(t, files)
	return files
}

// otherModule reports whether the folder has a go.mod of its own.
func otherModule(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

func importPaths(t *testing.T, file *ast.File) []string {
	t.Helper()
	paths := make([]string, 0, len(file.Imports))
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		paths = append(paths, path)
	}
	return paths
}

// lists reports whether name is in list, where an entry with a trailing slash
// stands for everything under it.
func lists(list []string, name string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		return name == entry || strings.HasSuffix(entry, "/") && strings.HasPrefix(name, entry)
	})
}

// under reports whether the import path is outside or lies in its subtree.
func under(path, outside string) bool {
	return path == outside || strings.HasPrefix(path, outside+"/")
}

func TestImportsPointInward(t *testing.T) {
	t.Parallel()
	reported := map[string]bool{}
	for _, file := range sourceFiles(t) {
		if file.test() {
			continue
		}
		allowed, known := mayImport(file.pkg)
		if !known && !reported[file.pkg] {
			reported[file.pkg] = true
			t.Errorf("%s has no place in the layer table: give it one in internal/dev/arch/table_test.go", file.pkg)
		}
		if !known {
			continue
		}
		for _, path := range file.imports {
			if local, ok := strings.CutPrefix(path, module+"/"); ok && !lists(allowed, local) {
				t.Errorf("%s imports %s, which points outward", file.path, local)
			}
		}
	}
}

func TestOutsidePackagesStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	for _, file := range sourceFiles(t) {
		if file.test() {
			continue
		}
		for _, path := range file.imports {
			i := slices.IndexFunc(borders(), func(b border) bool { return under(path, b.outside) })
			if i >= 0 && !lists(borders()[i].only, file.pkg) {
				t.Errorf("%s imports %s: %s", file.path, path, borders()[i].why)
			}
			i = slices.IndexFunc(bans(), func(b ban) bool { return lists(b.who, file.pkg) })
			if i >= 0 && slices.Contains(bans()[i].outside, path) {
				t.Errorf("%s imports %s: %s", file.path, path, bans()[i].why)
			}
		}
	}
}

// The top of internal/ is the map of the layers: it must fit on one screen.
func TestInternalHasFewFolders(t *testing.T) {
	t.Parallel()
	const most = 12
	entries, err := os.ReadDir(filepath.Join(root, "internal"))
	require.NoError(t, err)
	require.LessOrEqual(t, len(entries), most)
	for _, entry := range entries {
		require.True(t, entry.IsDir(), "internal/%s: packages live one level down, in their layer", entry.Name())
		files, err := filepath.Glob(filepath.Join(root, "internal", entry.Name(), "*.go"))
		require.NoError(t, err)
		require.Empty(t, files, "internal/%s is a layer, not a package", entry.Name())
	}
}

// A batch is filled through generated methods, so that the compiler checks parameters and
// results; only db fills pgx's own.
func TestBatchesAreFilledThroughGeneratedMethods(t *testing.T) {
	t.Parallel()
	for _, file := range sourceFiles(t) {
		if file.test() || file.pkg == "db" || strings.HasPrefix(file.pkg, dev) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, file.path))
		require.NoError(t, err)
		for _, raw := range []string{"pgx.Batch{", "RowToStructByPos"} {
			require.NotContains(t, string(text), raw, "%s: queue generated methods into a db.Batch", file.path)
		}
	}
}

// The product binary is small because none of this is in it, however indirectly.
func TestProductBinaryCarriesNoDevelopmentServer(t *testing.T) {
	t.Parallel()
	product := "cmd/agentruntime"
	never := []string{
		"go.temporal.io/server",
		"github.com/temporalio/ui-server",
		"modernc.org/sqlite",
		"go.temporal.io/auto-scaled-workers", // these two are replaced, see internal/dev/leftout
		"cloud.google.com/go/storage",
		module + "/internal/dev/devserver",
		module + "/internal/dev/testkit",
		module + "/cmd/agentruntime-dev",
	}
	for _, line := range goList(t, "-deps", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./"+product) {
		importer, imports, _ := strings.Cut(line, " ")
		for path := range strings.FieldsSeq(imports) {
			for _, forbidden := range never {
				if under(path, forbidden) && !under(importer, forbidden) {
					t.Errorf("%s links %s, by way of %s", product, path, importer)
				}
			}
		}
	}
}

// The Temporal server can start workers in three clouds and archive into two. That is a third
// of what it compiles, and a development server does neither; see internal/dev/leftout.
func TestDevelopmentBinaryCarriesNoClouds(t *testing.T) {
	t.Parallel()
	never := []string{
		"k8s.io", "sigs.k8s.io", "github.com/envoyproxy", "cloud.google.com/go/run", "cloud.google.com/go/monitoring",
		"github.com/aws/aws-sdk-go-v2/service/ecs", "github.com/aws/aws-sdk-go-v2/service/lambda",
	}
	for _, path := range goList(t, "-deps", "./cmd/agentruntime-dev") {
		for _, forbidden := range never {
			require.False(t, under(path, forbidden), "cmd/agentruntime-dev compiles %s", path)
		}
	}
}

// The build for a Temporal server that runs already is quick to compile and small.
func TestDevelopmentBinaryForAnotherServerContainsNone(t *testing.T) {
	t.Parallel()
	never := []string{"go.temporal.io/server", "github.com/temporalio/ui-server", "modernc.org/sqlite", module + "/internal/dev/bench"}
	for _, path := range goList(t, "-deps", "-tags", "external", "./cmd/agentruntime-dev") {
		for _, forbidden := range never {
			require.False(t, under(path, forbidden), "cmd/agentruntime-dev with the tag external compiles %s", path)
		}
	}
}

// The server takes minutes to compile and each test binary links it once more, so at
// most one of them may. Lanes behind a build tag do not count.
func TestOneTestBinaryLinksTheTemporalServer(t *testing.T) {
	t.Parallel()
	var linking []string
	for _, line := range goList(t, "-test", "-f", "{{.ImportPath}} {{join .Deps \" \"}}", "./...") {
		binary, deps, _ := strings.Cut(line, " ")
		if strings.HasSuffix(binary, ".test") && slices.Contains(strings.Fields(deps), "go.temporal.io/server/temporal") {
			linking = append(linking, binary)
		}
	}
	require.LessOrEqual(t, len(linking), 1, "test binaries that link the Temporal server: %v", linking)
}

// lanePrefix returns what the names of a file's tests must begin with.
func lanePrefix(file *ast.File) string {
	for _, group := range file.Comments {
		if group.Pos() > file.Package {
			break
		}
		switch group.List[0].Text {
		case "//go:build conformance":
			return "TestConformance"
		case "//go:build chaos":
			return "TestChaos"
		case "//go:build soak":
			return "TestSoak"
		case "//go:build corpus":
			return "TestCorpus"
		}
	}
	return ""
}

// The Makefile picks the tests of a tagged lane by this prefix; a test that lacks
// it would never run.
func TestTaggedLanesRunEveryTest(t *testing.T) {
	t.Parallel()
	for _, file := range sourceFiles(t) {
		if !file.test() {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file.path), nil, parser.ParseComments)
		require.NoError(t, err)
		prefix := lanePrefix(parsed)
		for _, declaration := range parsed.Decls {
			f, ok := declaration.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
				require.True(t, strings.HasPrefix(f.Name.Name, prefix), "%s: %s must begin with %s", file.path, f.Name.Name, prefix)
			}
		}
	}
}

// raceLane returns the packages that the Makefile tests with the race detector.
func raceLane(t *testing.T) []string {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	_, list, found := strings.Cut(string(makefile), "\nRACE := ")
	require.True(t, found)
	list, _, _ = strings.Cut(strings.ReplaceAll(list, "\\\n", " "), "\n")
	return strings.Fields(list)
}

// What the race detector watches are the packages of the service that start goroutines, and those that they
// share.
func TestPackagesThatStartGoroutinesAreTestedForRaces(t *testing.T) {
	t.Parallel()
	lane, tested := raceLane(t), map[string]bool{} // tested are the packages with tests
	files := sourceFiles(t)
	for _, file := range files {
		tested[file.pkg] = tested[file.pkg] || strings.HasSuffix(file.path, "_test.go")
	}
	for _, pkg := range lane {
		require.True(t, tested[pkg], "the Makefile names %s in RACE, which has no tests", pkg)
	}
	for _, file := range files {
		if file.test() || !tested[file.pkg] || slices.Contains(lane, file.pkg) || lists([]string{"internal/dev/", "cmd/", probes + "/"}, file.pkg+"/") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, filepath.Join(root, file.path), nil, 0)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			starts := false
			switch n := n.(type) {
			case *ast.GoStmt:
				starts = true
			case *ast.CallExpr: // that of a WaitGroup or an errgroup, and a timer; those of workflows are no goroutines
				called, is := n.Fun.(*ast.SelectorExpr)
				starts = is && (called.Sel.Name == "Go" || called.Sel.Name == "AfterFunc") && file.pkg != "workflows"
			}
			if starts {
				t.Errorf("%s:%d starts a goroutine: name the package in RACE of the Makefile", file.path, set.Position(n.Pos()).Line)
			}
			return true
		})
	}
}

func goList(t *testing.T, args ...string) []string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	command.Dir = root
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	require.NoError(t, err, stderr.String())
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
