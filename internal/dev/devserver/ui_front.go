package devserver

import (
	"context"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"agentruntime/internal/base/flow"
	"agentruntime/internal/dev/devserver/port"
)

// StartPath is the path of the UI at which the list of workflows shows the search attributes
// as columns, as it does at the bare address. It keeps the query, as in StartPath?query=….
const StartPath = "/agentruntime"

const frontHeaderTimeout = 10 * time.Second

// startPage chooses columns, unless the browser has some of ours already, and goes to the
// list. The UI keeps its columns in the browser, by origin, and has no other way to set them.
const startPage = `<!doctype html>
<title>Agent Runtime</title>
<script>
const key = "namespace-workflow-table-columns", chosen = {{.Columns}}, namespace = {{.Namespace}};
const all = JSON.parse(localStorage.getItem(key) || "{}");
if (!(all[namespace] || []).some(column => column.label.startsWith("AgentRuntime"))) {
  all[namespace] = chosen;
  localStorage.setItem(key, JSON.stringify(all));
}
location.replace("/namespaces/" + namespace + "/workflows" + location.search);
</script>
`

// columns are those of the list, from the left.
func columns() []map[string]string {
	names := []string{
		"Status", string(flow.AttributeExecution), string(flow.AttributeVerb), string(flow.AttributeState), string(flow.AttributeRisk),
		string(flow.AttributeKind), "Start", "End", "Workflow ID",
	}
	list := make([]map[string]string, len(names))
	for i, name := range names {
		list[i] = map[string]string{"label": name}
	}
	return list
}

// startFront serves the start page, and the UI at the inner address for all else.
func startFront(ctx context.Context, cfg UIConfig, inner string) (srv *http.Server, addr string, err error) {
	if addr, err = port.Resolve("temporal ui", cfg.Addr); err != nil {
		return nil, "", err
	}
	page, err := template.New("").Parse(startPage)
	if err != nil {
		return nil, "", err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, "", err
	}
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	mux := http.NewServeMux()
	mux.Handle("/", &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: inner})
			r.Out.Host = r.In.Host
		},
		Transport: &http.Transport{}, ErrorLog: quiet,
	})
	start := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = page.Execute(w, map[string]any{"Columns": columns(), "Namespace": cfg.Namespace}) // the browser may be gone
	}
	mux.HandleFunc("GET "+StartPath, start)
	mux.HandleFunc("GET /{$}", start)
	srv = &http.Server{Handler: port.LocalNames(addr, mux), ReadHeaderTimeout: frontHeaderTimeout, ErrorLog: quiet}
	go func() { _ = srv.Serve(l) }() // it ends when it is closed
	return srv, addr, nil
}
