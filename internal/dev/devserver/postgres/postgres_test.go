package postgres

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"agentruntime/internal/dev/devserver/datadir"
)

// helperDir, set in the environment, turns the test binary into a process that
// runs a server on that directory until it is killed.
const helperDir = "POSTGRES_TEST_HELPER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperDir); dir != "" {
		helper(dir)
		return
	}
	os.Exit(m.Run())
}

func helper(dir string) {
	s, err := Start(context.Background(), Config{Dir: dir, Log: slog.Default()})
	if err != nil {
		fmt.Fprintln(os.Stdout, "failed", err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, "ready", s.process.child.Pid, s.SuperuserURL("postgres"))
	<-s.Done()
}

// openDir returns a directory that the server's account may be let into; the
// parents of t.TempDir are closed.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pg") //nolint:usetesting // t.TempDir's parents are closed
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func start(t *testing.T, dir string) *Server {
	t.Helper()
	s, err := Start(t.Context(), Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	return s
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func queryInt(t *testing.T, conn *pgx.Conn, sql string) int {
	t.Helper()
	var n int
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&n))
	return n
}

func exec1(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}

//nolint:paralleltest,tparallel // the steps share one server and follow one another
func TestServer(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	s := start(t, dir)
	require.Equal(t, dir, s.cluster.home, "a closed directory of our own is opened, not left")

	var settings string
	conn := connect(t, s.SuperuserURL("postgres"))
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings
		WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'listen_addresses', 'unix_socket_directories')`).Scan(&settings))
	require.Equal(t, "fsync=on full_page_writes=on listen_addresses=127.0.0.1 synchronous_commit=on unix_socket_directories=", settings)

	t.Run("databases", func(t *testing.T) {
		require.NoError(t, s.CreateDatabase(t.Context(), "tpl"))
		require.NoError(t, s.CreateDatabase(t.Context(), "tpl"), "again")
		tpl, err := pgx.Connect(t.Context(), s.SuperuserURL("tpl"))
		require.NoError(t, err)
		exec1(t, tpl, "CREATE TABLE t AS SELECT 7 AS n")
		require.NoError(t, tpl.Close(t.Context()))
		require.NoError(t, s.CloneDatabase(t.Context(), "tpl", "copy"))
		copied := connect(t, s.SuperuserURL("copy"))
		require.Equal(t, 7, queryInt(t, copied, "SELECT n FROM t"))
		require.NoError(t, s.DropDatabase(t.Context(), "copy"))
	})
	t.Run("a role logs in without privileges", func(t *testing.T) {
		url, err := s.LoginURL(t.Context(), "app", "tpl")
		require.NoError(t, err)
		again, err := s.LoginURL(t.Context(), "app", "tpl")
		require.NoError(t, err)
		require.Equal(t, url, again)
		app := connect(t, url)
		require.Equal(t, 0, queryInt(t, app, "SELECT (rolsuper OR rolbypassrls)::int FROM pg_roles WHERE rolname = current_user"))
	})
	t.Run("nobody gets in without the password", func(t *testing.T) {
		_, err := pgx.Connect(t.Context(), s.url(superuser, "wrong", "postgres"))
		require.ErrorContains(t, err, "password authentication failed")
	})
	t.Run("a second start is refused", func(t *testing.T) {
		_, err := Start(t.Context(), Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
		require.ErrorIs(t, err, datadir.ErrInUse)
		require.ErrorContains(t, err, "process "+strconv.Itoa(os.Getpid()))
		require.ErrorContains(t, err, "--data")
	})
	t.Run("data outlives a restart", func(t *testing.T) {
		require.NoError(t, s.Stop())
		require.NoError(t, s.Stop(), "again")
		again := start(t, dir)
		conn := connect(t, again.SuperuserURL("tpl"))
		require.Equal(t, 7, queryInt(t, conn, "SELECT n FROM t"))
	})
}

func TestTakenPortSaysWhatToDo(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, err = Start(t.Context(), Config{Dir: openDir(t), Port: l.Addr().(*net.TCPAddr).Port, Log: slog.New(slog.DiscardHandler)})
	require.ErrorContains(t, err, l.Addr().String())
	require.ErrorContains(t, err, "choose another")
}

// A checkout that the dropped user may not enter: as root the cluster lives
// elsewhere, and still comes back at the next start.
func TestClosedParentDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o700))
	s := start(t, dir)
	home := s.cluster.home
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(home)) }) // runs after the second Stop, see below
	require.Equal(t, os.Geteuid() == 0, home != dir)
	conn := connect(t, s.SuperuserURL("postgres"))
	exec1(t, conn, "CREATE TABLE t AS SELECT 7 AS n")
	require.NoError(t, s.Stop())

	again := start(t, dir)
	require.Equal(t, home, again.cluster.home)
	require.Equal(t, 7, queryInt(t, connect(t, again.SuperuserURL("postgres")), "SELECT n FROM t"))
	require.NoError(t, again.Stop())

	if home != dir {
		require.NoError(t, os.RemoveAll(dir))
		fresh := start(t, dir)
		require.Equal(t, 0, queryInt(t, connect(t, fresh.SuperuserURL("postgres")), "SELECT count(*) FROM pg_tables WHERE tablename = 't'"),
			"a deleted data directory does not come back")
		require.NoError(t, fresh.Stop())

		require.NoError(t, os.RemoveAll(dir))
		other := start(t, filepath.Join(filepath.Dir(dir), "other"))
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(other.cluster.home)) })
		require.NoDirExists(t, home, "what a deleted data directory leaves is removed")
		require.NoError(t, other.Stop())
	}
}

func TestServerEndsWithKilledParent(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), helperDir+"="+dir)
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	fields := strings.Fields(line)
	require.Equal(t, "ready", fields[0], line)
	conn := connect(t, fields[2])
	exec1(t, conn, "CREATE TABLE t AS SELECT 7 AS n")

	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait())
	s := start(t, dir)
	require.Equal(t, 7, queryInt(t, connect(t, s.SuperuserURL("postgres")), "SELECT n FROM t"))
	require.NotEqual(t, fields[1], strconv.Itoa(s.process.child.Pid))
}

// First an orphan that outlived its parent. Once ended it is a zombie, since nothing
// waits for it. Both own the server's lock file.
func TestOrphanIsEndedAndItsZombieIgnored(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(t *testing.T, orphan *os.Process){
		"running": func(*testing.T, *os.Process) {},
		"zombie": func(t *testing.T, orphan *os.Process) {
			t.Helper()
			require.NoError(t, orphan.Signal(syscall.SIGKILL))
		},
		"another process has its number": func(t *testing.T, orphan *os.Process) {
			t.Helper()
			require.NoError(t, orphan.Signal(syscall.SIGKILL))
			_, err := orphan.Wait()
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := openDir(t)
			s := start(t, dir)
			c := s.cluster
			require.NoError(t, s.Stop())

			cmd := c.command("postgres", c.serverArgs(s.port)...) // not tied to us
			require.NoError(t, cmd.Start())
			lockFile := filepath.Join(c.data(), "postmaster.pid")
			require.Eventually(t, func() bool { _, err := os.Stat(lockFile); return err == nil }, time.Minute, 5*time.Millisecond)
			leave(t, cmd.Process)
			if name == "another process has its number" {
				require.NoError(t, os.WriteFile(lockFile, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600))
			}
			again := start(t, dir)
			require.Equal(t, 1, queryInt(t, connect(t, again.SuperuserURL("postgres")), "SELECT 1"))
			cmd.Wait()
		})
	}
}

func TestMissingInstallSaysTheCommand(t *testing.T) {
	t.Parallel()
	_, err := findInstall(t.Context(), 9)
	require.ErrorIs(t, err, ErrNotInstalled)
	require.ErrorContains(t, err, "release 9")
	require.Contains(t, installCommand(), "postgresql")
}

func TestParseMajor(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]int{
		"postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n": 15,
		"postgres (PostgreSQL) 17beta1\n":                        17,
		"postgres (PostgreSQL) 18":                               18,
		"something else":                                         0,
	} {
		got, ok := parseMajor(version)
		require.Equal(t, want, got, version)
		require.Equal(t, want != 0, ok, version)
	}
}
