package arch

import "slices"

// The pure kernel, innermost first. No I/O, and nothing outside itself.
var kernel = []string{
	"internal/fault",
	"internal/strictjson",
	"internal/verb",
	"internal/redact",
	"internal/flow",
	"internal/audit/chain",
	"internal/governance",
	"internal/ratelimit",
	"internal/backoff",
	"internal/maps",
}

// What the service knows about its subject. None of them knows another: one that
// needs a sibling declares an interface, and internal/app passes the sibling in.
var domain = []string{
	"internal/account",
	"internal/approval",
	"internal/auth",
	"internal/catalog",
	"internal/connectors",
	"internal/limits",
	"internal/policy",
	"internal/run",
	"internal/vault",
	"internal/webhooks",
}

// What every domain package appends to, within the transaction of its change. It
// knows none of them.
var record = []string{"internal/audit"}

// Empty functions in every normal build; see internal/failpoint.
var probes = []string{"internal/failpoint"}

var store = []string{"db", "db/dbsqlc"}

// mayImport lists, for each package, the packages of this module that its product
// code may import. A trailing slash stands for a whole subtree. Test files are
// free, so that a test may set up whatever it needs.
func mayImport() map[string][]string {
	table := map[string][]string{
		// The tree. Listed one by one where a package stands between the groups.
		"db/dbsqlc":  {},
		"db":         {"db/dbsqlc", "internal/fault"},
		"workflows":  kernel,
		"activities": slices.Concat(kernel, domain, probes),
		"worker":     {"activities", "workflows", "internal/flow"},
		"api":        slices.Concat(kernel, domain, record, []string{"internal/engine"}),

		"internal/audit":     slices.Concat(kernel, store),
		"internal/engine":    kernel,
		"internal/config":    kernel,
		"internal/egress":    kernel,
		"internal/failpoint": {},
		"internal/sandbox":   {},
		"internal/bench":     {},
		"internal/cli":       {"db", "internal/app", "internal/audit/chain", "internal/config"},
		"internal/app": slices.Concat(kernel, domain, record, store, []string{
			"activities", "api", "worker", "internal/config", "internal/dispatch", "internal/egress", "internal/engine",
		}),
		// Where several domain packages meet for one call of a provider.
		"internal/dispatch": slices.Concat(kernel, store, []string{
			"internal/catalog", "internal/connectors", "internal/egress", "internal/policy", "internal/run", "internal/vault",
		}),
		"internal/devserver": {"db", "internal/app", "internal/config", "internal/devserver/", "internal/flow"},
		"internal/testkit":   slices.Concat(kernel, domain, store, []string{"internal/devserver/"}),

		"internal/devserver/datadir":  {},
		"internal/devserver/port":     {},
		"internal/devserver/postgres": {"internal/devserver/datadir", "internal/devserver/port"},

		"cmd/agentruntime": {"internal/cli"},
		// The development binary starts and measures everything, so it may see most of it.
		"cmd/agentruntime-dev": slices.Concat(kernel, []string{
			"db", "internal/app", "internal/bench", "internal/catalog", "internal/cli", "internal/config",
			"internal/devserver", "internal/devserver/", "internal/sandbox",
		}),
	}
	// A kernel package may import those before it in the list.
	for i, name := range kernel {
		table[name] = kernel[:i]
	}
	for _, name := range domain {
		table[name] = slices.Concat(kernel, store, record, probes)
	}
	return table
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
	development := []string{"cmd/agentruntime-dev", "internal/bench", "internal/devserver", "internal/devserver/", "internal/testkit"}
	temporalClient := append([]string{"internal/engine", "internal/app", "worker"}, development...)
	return []border{
		{"go.temporal.io/server", []string{"internal/devserver", "internal/devserver/"}, "the product binary must not carry the Temporal server"},
		{"github.com/temporalio/ui-server", []string{"internal/devserver", "internal/devserver/"}, "the product binary must not carry the Temporal UI"},
		{"go.temporal.io/sdk/client", temporalClient, "internal/engine is the only user of the Temporal client; others connect it"},
		{"go.temporal.io/sdk", slices.Concat(temporalClient, []string{"workflows", "activities"}), "orchestration belongs in workflows and activities"},
		{"github.com/go-chi/chi", []string{"api"}, "transport belongs in api"},
		{"github.com/jackc/pgx", slices.Concat(domain, store, record, development, []string{"internal/app", "internal/dispatch"}), "storage belongs to db and the domain packages"},
		{"github.com/pressly/goose", []string{"db"}, "db owns the migrations"},
		{"github.com/caarlos0/env", []string{"internal/config"}, "configuration is read in one place"},
		{"github.com/spf13/cobra", []string{"cmd/agentruntime-dev", "internal/cli"}, "the command line ends in the commands"},
		{"github.com/stretchr/testify", []string{"internal/testkit"}, "tests only"},
		{"testing", []string{"internal/testkit"}, "tests only"},
	}
}

// A ban keeps packages of the standard library away from code that must be pure.
type ban struct {
	who     []string
	outside []string
	why     string
}

func bans() []ban {
	effects := []string{"os", "os/exec", "net", "database/sql", "math/rand", "math/rand/v2"}
	return []ban{
		{[]string{"workflows"}, append([]string{"net/http", "crypto/rand", "encoding/json", "text/template"}, effects...), "workflow code is replayed: put it in an activity"},
		// fault is not held to net/http because it names status codes.
		{kernel[1:], append([]string{"net/http"}, effects...), "the kernel does no I/O"},
		{kernel[:1], effects, "the kernel does no I/O"},
	}
}
