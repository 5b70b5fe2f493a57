package arch

import "slices"

// The folders of internal/, from the inside out. Each layer may import those before it
// in the way that mayImport says; a package outside them fails.
const (
	// base has what belongs to no subject: errors, names, readers of JSON. It is pure.
	base = "internal/base/"
	// record is written inside the transaction of another package's change.
	record = "internal/record/"
	// service is where several domain packages meet for one job.
	service = "internal/service/"
	// edge talks to the outside: Temporal, the network.
	edge = "internal/edge/"
	// process puts a running program together.
	process = "internal/process/"
	// dev has the development servers and what tests share.
	dev = "internal/dev/"
)

// domains are the subjects of the service. Their packages that are not pure know nothing of each
// other: one that needs a sibling declares an interface, and internal/process/app passes the
// sibling in. What two siblings both name is in a pure package or in base.
var domains = []string{"internal/action/", "internal/agents/", "internal/maps/", "internal/models/", "internal/provider/", "internal/tenant/"}

// pure are the packages of subjects that only compute: rules and formats, no I/O, no state of a
// process. They import base and each other, and every layer may import them.
var pure = []string{
	"internal/action/circuit", "internal/action/governance",
	"internal/agents/agentdef", "internal/agents/agentloop", "internal/agents/goalloop", "internal/agents/language",
	"internal/agents/modelstep", "internal/agents/recall", "internal/agents/tooldef", "internal/agents/wordrank",
	"internal/maps/expression", "internal/maps/mapdef", "internal/maps/mapgraph", "internal/maps/stepmachine",
	"internal/models/chat", "internal/models/model", "internal/models/replay", "internal/models/rules", "internal/models/scripted",
	"internal/provider/argdiff", "internal/provider/correction", "internal/provider/credential", "internal/provider/httpplan",
	"internal/provider/overlay", "internal/provider/providererror", "internal/provider/resultnote", "internal/provider/swagger",
	"internal/record/chain", "internal/record/mailserver",
}

// probes are empty functions in every normal build. In the builds of the crash rig and the soak they
// call the rig over HTTP, so they may do what the rest of base may not.
const probes = "internal/base/failpoint"

var store = []string{"db", "db/dbsqlc"}

// A layer says what the product code of some packages may import of this module. A
// trailing slash stands for a whole subtree. Test files are free, so that a test may set
// up whatever it needs. A package may always import what lies below its own folder.
type layer struct {
	packages string
	imports  []string
}

// layers lists them from the narrow to the wide: the first entry that fits a package
// decides.
func layers() []layer {
	rules := append([]string{base}, pure...)
	domain := slices.Concat(rules, []string{record}, store)
	var list []layer
	for _, pkg := range pure {
		list = append(list, layer{pkg, rules})
	}
	list = append(list, []layer{
		// The Temporal contract names the commands of the step machine.
		{"internal/base/flow", []string{base, "internal/maps/stepmachine"}},
		{base, []string{base}},
		// The adapters of models talk to the network, and to nothing of ours.
		{"internal/models/anthropic", rules},
		{"internal/models/openai", rules},

		{"db/dbsqlc", nil},
		{"db", []string{"db/dbsqlc", "internal/base/fault", "internal/base/turns"}},
		{"workflows", rules},
		{"activities", slices.Concat(rules, []string{service}, domains)},
		{"worker", []string{"activities", "workflows", "internal/base/flow", "internal/base/fault"}},
		{"api", slices.Concat(rules, []string{record, service}, domains)},
		// The program that writes the document adds the events.
		{"api/openapi", []string{"internal/record/event"}},
		{"api/", rules},
		{"cmd/agentruntime", []string{"internal/process/cli"}},
		// The development binary starts and measures everything, so it may see most of it.
		{"cmd/agentruntime-dev", append([]string{process, dev, "db"}, rules...)},

		{record, slices.Concat(rules, []string{record}, store)},
		// A service may know one that stands below it.
		{"internal/service/answering", slices.Concat(rules, []string{record, edge, "internal/service/tooling"}, domains, store)},
		{service, slices.Concat(rules, []string{record, edge}, domains, store)},
		{edge, rules},
		{"internal/process/config", append([]string{"db"}, rules...)},
		{process, slices.Concat(rules, []string{record, service, edge, process, "activities", "api", "worker"}, domains, store)},

		// Parts that must stay free of the service, so that the service can be linked without them.
		{"internal/dev/mailbox", nil},
		{"internal/dev/sandbox", nil},
		// It is compiled before everything, and in seconds.
		{"internal/dev/progress", nil},
		{"internal/dev/toolrules", rules},
		{"internal/dev/strictmodel", append([]string{"internal/dev/toolrules", "internal/models/anthropic", "internal/models/openai"}, rules...)},
		// The benchmark counts rows below the API; it gets the servers from the command.
		{"internal/dev/bench", []string{"db"}},
		{"internal/dev/devserver/datadir", nil},
		{"internal/dev/devserver/port", nil},
		{"internal/dev/devserver/postgres", []string{"internal/dev/devserver/"}},
		{"internal/dev/devserver", []string{"db", process, "internal/base/flow"}},
		{"internal/dev/testkit/testdir", nil},
		{"internal/dev/testkit", slices.Concat(rules, []string{record, "internal/dev/devserver/"}, domains, store)},
	}...)
	for _, folder := range domains {
		list = append(list, layer{folder, domain})
	}
	return list
}

// mayImport returns what the package may import of this module; ok is false where no
// layer has a place for it.
func mayImport(pkg string) (allowed []string, ok bool) {
	for _, l := range layers() {
		if lists([]string{l.packages}, pkg) {
			return append(slices.Clone(l.imports), pkg+"/"), true
		}
	}
	return nil, false
}

// A border keeps an outside package to the places that are meant to know it.
type border struct {
	outside string   // import path; its subtree is meant too
	only    []string // where it may be imported; a trailing slash stands for a subtree
	why     string
}

// borders lists the outside packages that only some layers may know. The first
// border that fits an import decides, so the narrower path stands first.
func borders() []border {
	// The development binary's own: it hosts the servers and measures them.
	development := []string{"cmd/agentruntime-dev", "internal/dev/bench", "internal/dev/devserver", "internal/dev/devserver/", "internal/dev/testkit"}
	temporalClient := append([]string{"internal/edge/engine", "internal/process/app", "worker"}, development...)
	return []border{
		{"go.temporal.io/server", []string{"internal/dev/devserver", "internal/dev/devserver/"}, "the product binary must not carry the Temporal server"},
		{"github.com/temporalio/ui-server", []string{"internal/dev/devserver", "internal/dev/devserver/"}, "the product binary must not carry the Temporal UI"},
		{"go.temporal.io/sdk/client", temporalClient, "internal/edge/engine is the only user of the Temporal client; others connect it"},
		{"go.temporal.io/sdk", slices.Concat(temporalClient, []string{"workflows", "activities"}), "orchestration belongs in workflows and activities"},
		{"github.com/go-chi/chi", []string{"api", "api/"}, "transport belongs in api"},
		{"github.com/jackc/pgx", slices.Concat(domains, store, []string{record, service, "internal/process/app"}, development), "storage belongs to db and the domain packages"},
		{"github.com/pressly/goose", []string{"db"}, "db owns the migrations"},
		{"github.com/caarlos0/env", []string{"internal/process/config"}, "configuration is read in one place"},
		{"github.com/spf13/cobra", []string{"cmd/agentruntime-dev", "internal/process/cli"}, "the command line ends in the commands"},
		{"github.com/stretchr/testify", []string{"internal/dev/testkit", "internal/dev/testkit/"}, "tests only"},
		{"testing", []string{"internal/dev/testkit", "internal/dev/testkit/"}, "tests only"},
	}
}

// A ban keeps packages of the standard library away from code that must be pure. The
// first that names a package decides.
type ban struct {
	who     []string
	outside []string
	why     string
}

func bans() []ban {
	effects := []string{"os", "os/exec", "net", "database/sql", "math/rand", "math/rand/v2"}
	return []ban{
		{[]string{"workflows"}, append([]string{module + "/" + probes, "net/http", "crypto/rand", "encoding/json", "text/template"}, effects...), "workflow code is replayed: put it in an activity"},
		{[]string{probes}, nil, "only the builds for the rigs call anything"},
		// fault names status codes.
		{[]string{"internal/base/fault"}, effects, "base does no I/O"},
		{append([]string{base}, pure...), append([]string{"net/http", "github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgxpool", "github.com/jackc/pgx/v5/pgconn"}, effects...), "pure packages do no I/O"},
	}
}
