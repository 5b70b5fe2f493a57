package arch

import "slices"

// The folders of internal/, from the inside out. Each layer may import those before it
// in the way that mayImport says; a package outside them fails.
const (
	// kernel is pure: rules, names and contracts, no I/O.
	kernel = "internal/kernel/"
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

// domains are what the service knows about its subject. No package of theirs knows
// another: one that needs a sibling declares an interface, and internal/process/app
// passes the sibling in. What two siblings both name belongs to the kernel.
var domains = []string{"internal/action/", "internal/agents/", "internal/maps/", "internal/provider/", "internal/tenant/"}

// probes are empty functions in every normal build. In the builds of the crash rig and the soak they
// call the rig over HTTP, so they may do what the rest of the kernel may not.
const probes = "internal/kernel/failpoint"

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
	domain := slices.Concat([]string{kernel, record}, store)
	list := []layer{
		{"db/dbsqlc", nil},
		{"db", []string{"db/dbsqlc", "internal/kernel/fault", "internal/kernel/turns"}},
		{"workflows", []string{kernel}},
		{"activities", slices.Concat([]string{kernel, service}, domains)},
		{"worker", []string{"activities", "workflows", "internal/kernel/flow", "internal/kernel/fault"}},
		{"api", slices.Concat([]string{kernel, record, service}, domains)},
		// The program that writes the document adds the events.
		{"api/openapi", []string{"internal/record/event"}},
		{"api/", []string{kernel}},
		{"cmd/agentruntime", []string{"internal/process/cli"}},
		// The development binary starts and measures everything, so it may see most of it.
		{"cmd/agentruntime-dev", []string{kernel, process, dev, "db"}},

		{kernel, []string{kernel}},
		{record, slices.Concat([]string{kernel, record}, store)},
		{service, slices.Concat([]string{kernel, record, edge}, domains, store)},
		{edge, []string{kernel}},
		{"internal/process/config", []string{kernel, "db"}},
		{process, slices.Concat([]string{kernel, record, service, edge, process, "activities", "api", "worker"}, domains, store)},

		// Parts that must stay free of the service, so that the service can be linked without them.
		{"internal/dev/mailbox", nil},
		{"internal/dev/sandbox", nil},
		// It is compiled before everything, and in seconds.
		{"internal/dev/progress", nil},
		{"internal/dev/toolrules", []string{kernel}},
		{"internal/dev/strictmodel", []string{"internal/dev/toolrules", "internal/edge/anthropic", "internal/edge/openai", kernel}},
		// The benchmark counts rows below the API; it gets the servers from the command.
		{"internal/dev/bench", []string{"db"}},
		{"internal/dev/devserver/datadir", nil},
		{"internal/dev/devserver/port", nil},
		{"internal/dev/devserver/postgres", []string{"internal/dev/devserver/"}},
		{"internal/dev/devserver", []string{"db", process, "internal/kernel/flow"}},
		{"internal/dev/testkit/testdir", nil},
		{"internal/dev/testkit", slices.Concat([]string{kernel, record, "internal/dev/devserver/"}, domains, store)},
	}
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
		{[]string{"internal/kernel/fault"}, effects, "the kernel does no I/O"},
		{[]string{kernel}, append([]string{"net/http"}, effects...), "the kernel does no I/O"},
	}
}
