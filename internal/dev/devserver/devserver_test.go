package devserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"agentruntime/internal/dev/devserver/datadir"
	"agentruntime/internal/dev/devserver/postgres"
)

// helperDir, set in the environment, turns the test binary into a process that
// runs Postgres and Temporal on that directory until it is killed.
const helperDir = "DEVSERVER_TEST_HELPER_DIR"

const namespace = "default"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperDir); dir != "" {
		helper(dir)
		return
	}
	os.Exit(m.Run())
}

func helper(dir string) {
	ctx := context.Background()
	pg, err := postgres.Start(ctx, postgres.Config{Dir: filepath.Join(dir, "postgres"), Log: slog.Default()})
	if err == nil {
		err = pg.CreateDatabase(ctx, "visibility")
	}
	var server *Temporal
	if err == nil {
		server, err = StartTemporal(ctx, TemporalConfig{
			FrontendAddr: "127.0.0.1:0", Dir: filepath.Join(dir, "temporal"), VisibilityURL: pg.SuperuserURL("visibility"),
			Shards: 4, Namespace: namespace, Log: slog.Default(),
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stdout, "failed", err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, "ready", server.Addr)
	<-pg.Done()
}

// openDir returns a directory that any account may enter; t.TempDir is closed.
func openDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "dev") //nolint:usetesting // t.TempDir's parents are closed
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, os.RemoveAll(dir)) })
	require.NoError(tb, os.Chmod(dir, 0o755))
	return dir
}

func startPostgres(tb testing.TB, dir string) *postgres.Server {
	tb.Helper()
	pg, err := postgres.Start(tb.Context(), postgres.Config{Dir: filepath.Join(dir, "postgres"), Log: quiet()})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, pg.Stop()) })
	require.NoError(tb, pg.CreateDatabase(tb.Context(), "visibility"))
	return pg
}

func startTemporal(tb testing.TB, cfg TemporalConfig) *Temporal {
	tb.Helper()
	cfg.FrontendAddr, cfg.Namespace, cfg.Log = "127.0.0.1:0", namespace, slog.New(slog.NewTextHandler(tb.Output(), nil))
	server, err := StartTemporal(tb.Context(), cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, server.Stop()) })
	return server
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func dial(tb testing.TB, addr string) client.Client {
	tb.Helper()
	c, err := client.Dial(client.Options{
		HostPort: addr, Namespace: namespace, Logger: quietSDK{},
		ConnectionOptions: client.ConnectionOptions{GrpcCompression: &client.GrpcCompressionNone{}},
	})
	require.NoError(tb, err)
	tb.Cleanup(c.Close)
	return c
}

// waiting ends when it is told to: what it was told must outlive a restart.
func waiting(ctx workflow.Context) (string, error) {
	var word string
	workflow.GetSignalChannel(ctx, "word").Receive(ctx, &word)
	return word, nil
}

func startWaiting(t *testing.T, c client.Client, id string) {
	t.Helper()
	_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: "q"}, waiting)
	require.NoError(t, err)
	require.NoError(t, c.SignalWorkflow(t.Context(), id, "", "word", "kept"))
}

func finishWaiting(t *testing.T, c client.Client, id string) {
	t.Helper()
	w := worker.New(c, "q", worker.Options{})
	w.RegisterWorkflow(waiting)
	require.NoError(t, w.Start())
	defer w.Stop()
	var word string
	require.NoError(t, c.GetWorkflow(t.Context(), id, "").Get(t.Context(), &word))
	require.Equal(t, "kept", word)
	require.Eventually(t, func() bool {
		list, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
			Query: "WorkflowId = '" + id + "' AND ExecutionStatus = 'Completed'",
		})
		return err == nil && len(list.GetExecutions()) == 1
	}, 10*time.Second, 20*time.Millisecond, "the visibility store shows it")
}

func TestTemporalRestartedContinues(t *testing.T) {
	t.Parallel()
	for name, shards := range map[string]int{"visibility in postgres": 4, "visibility in sqlite": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := openDir(t)
			cfg := TemporalConfig{Dir: filepath.Join(dir, "temporal"), Shards: shards}
			if strings.HasSuffix(name, "postgres") {
				cfg.VisibilityURL = startPostgres(t, dir).SuperuserURL("visibility")
			}
			first := startTemporal(t, cfg)
			startWaiting(t, dial(t, first.Addr), "w")
			_, err := StartTemporal(t.Context(), TemporalConfig{FrontendAddr: "127.0.0.1:0", Dir: cfg.Dir, Log: quiet()})
			require.ErrorIs(t, err, datadir.ErrInUse)
			require.NoError(t, first.Stop())
			second := startTemporal(t, cfg)
			finishWaiting(t, dial(t, second.Addr), "w")
		})
	}
}

func TestKilledTreeRecovers(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	addr, kill := startHelper(t, dir)
	startWaiting(t, dial(t, addr), "w")
	kill()

	pg := startPostgres(t, dir)
	server := startTemporal(t, TemporalConfig{Dir: filepath.Join(dir, "temporal"), VisibilityURL: pg.SuperuserURL("visibility"), Shards: 4})
	finishWaiting(t, dial(t, server.Addr), "w")
}

// startHelper runs the servers in a process of their own.
func startHelper(t *testing.T, dir string) (addr string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperDir+"="+dir)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	fields := strings.Fields(line)
	require.Equal(t, "ready", fields[0], line)
	return fields[1], func() {
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
	}
}

func TestUIAnswers(t *testing.T) {
	t.Parallel()
	server := startTemporal(t, TemporalConfig{Dir: t.TempDir(), Shards: 1})
	ui, err := StartUI(t.Context(), UIConfig{Addr: "127.0.0.1:0", TemporalAddr: server.Addr, Namespace: namespace})
	require.NoError(t, err)
	t.Cleanup(ui.Stop)
	for path, want := range map[string]string{
		"/":                               `{"label":"AgentRuntimeKind"}`,
		"/api/v1/namespaces/default":      `"workflowExecutionRetentionTtl": "259200s"`,
		"/namespaces/default/workflows":   "<html",
		"/api/v1/namespaces/default/none": "Not Found",
	} {
		res, err := http.Get(ui.URL + path)
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Contains(t, string(body), want, path)
	}
	// A page on the web can point a name of its own at either address.
	for _, addr := range []string{strings.TrimPrefix(ui.URL, "http://"), ui.inner} {
		for host, want := range map[string]int{addr: http.StatusOK, "evil.example": http.StatusForbidden} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/api/v1/namespaces/default", http.NoBody)
			require.NoError(t, err)
			req.Host = host
			res, err := (&http.Client{Timeout: time.Minute}).Do(req)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, want, res.StatusCode, "%s at %s", host, addr)
		}
	}
	_, err = StartUI(t.Context(), UIConfig{Addr: strings.TrimPrefix(ui.URL, "http://"), TemporalAddr: server.Addr})
	require.ErrorContains(t, err, "choose another")
	ui.Stop()
	_, err = net.Dial("tcp", strings.TrimPrefix(ui.URL, "http://"))
	require.Error(t, err)
}

func TestTakenPortsSayWhatToDo(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, err = StartTemporal(t.Context(), TemporalConfig{FrontendAddr: l.Addr().String(), Dir: t.TempDir(), Log: quiet()})
	require.ErrorContains(t, err, l.Addr().String())
	require.ErrorContains(t, err, "choose another")
}
