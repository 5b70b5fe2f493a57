package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"agentruntime/internal/dev/devserver/datadir"
)

const (
	// systemHome is where clusters go whose data directory the server's account
	// cannot enter. Only root drops its uid, so it may write there; and unlike
	// the temporary directory it survives a reboot.
	systemHome = "/var/lib/agentruntime-dev"
	// ownerFile in such a home names the data directory that it belongs to.
	ownerFile     = "owner"
	passwordBytes = 24
)

// cluster is the server's data and what runs it.
type cluster struct {
	home    string // below it: cluster/ (PGDATA) and postgres.log
	name    string // cluster_name: marks every process of this server
	install install
	account *account // nil: our own uid
}

func (c cluster) data() string    { return filepath.Join(c.home, "cluster") }
func (c cluster) logPath() string { return filepath.Join(c.home, "postgres.log") }

// placeCluster decides where the cluster of dir lives: in dir, if the account that runs
// Postgres can enter it. Otherwise (a checkout below /root) it is in a directory below
// systemHome that DIR/location names. Once made, it stays there.
func placeCluster(ctx context.Context, dir string) (cluster, error) {
	c := cluster{home: dir}
	pointer := filepath.Join(dir, "location")
	text, err := os.ReadFile(pointer)
	switch {
	case err == nil:
		c.home = strings.TrimSpace(string(text))
	case !errors.Is(err, fs.ErrNotExist):
		return c, fmt.Errorf("read location: %w", err)
	}
	major, err := clusterMajor(c.data())
	if err != nil {
		return c, err
	}
	if c.install, err = findInstall(ctx, major); err != nil {
		return c, err
	}
	if c.account, err = serverAccount(c.data()); err != nil {
		return c, err
	}
	if c.home == dir && !c.admit(ctx, dir) {
		removeAbandoned(ctx)
		if major != 0 {
			return c, fmt.Errorf("the account that owns %s cannot enter it: give it the permission, or delete the data directory to start again", c.data())
		}
		if c.home, err = moveOut(dir, pointer, c.account); err != nil {
			return c, err
		}
	}
	sum := sha256.Sum256([]byte(c.home))
	c.name = "agentruntime-dev-" + hex.EncodeToString(sum[:6])
	return c, nil
}

// moveOut picks the home outside dir and writes the pointer to it. A home that
// is there already without a pointer belongs to a data directory that was deleted.
func moveOut(dir, pointer string, who *account) (string, error) {
	sum := sha256.Sum256([]byte(dir))
	home := filepath.Join(systemHome, hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(systemHome, 0o755); err != nil { //nolint:gosec // the account passes through
		home = filepath.Join(os.TempDir(), "agentruntime-dev-"+hex.EncodeToString(sum[:8]))
	}
	if err := os.RemoveAll(home); err != nil {
		return "", fmt.Errorf("clear %s: %w", home, err)
	}
	if err := who.makeDir(home); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(home, ownerFile), []byte(dir+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write owner: %w", err)
	}
	if err := os.WriteFile(pointer, []byte(home+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write location: %w", err)
	}
	return home, nil
}

// removeAbandoned removes the homes whose data directories were deleted, as
// those of tests are; a home in use is locked and stays.
func removeAbandoned(ctx context.Context) {
	homes, _ := filepath.Glob(filepath.Join(systemHome, "*")) // the only error is a bad pattern
	now, cancel := context.WithCancel(ctx)
	cancel() // one try at each lock
	for _, home := range homes {
		owner, err := os.ReadFile(filepath.Join(home, ownerFile))
		if err != nil {
			continue
		}
		if _, err := os.Stat(strings.TrimSpace(string(owner))); !errors.Is(err, fs.ErrNotExist) { //nolint:gosec // we wrote the path
			continue
		}
		if lock, err := datadir.Acquire(now, home); err == nil {
			_ = os.RemoveAll(home) // the next one tries again
			_ = lock.Release()
		}
	}
}

// clusterMajor returns the release that made the cluster, 0 where there is none.
func clusterMajor(data string) (int, error) {
	text, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read release of the cluster: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("read release of the cluster: %w", err)
	}
	return major, nil
}

// ensure returns the superuser's password and runs initdb if there is no
// cluster. initdb works in a directory of its own that takes its name at the
// end, so a start that was killed in the middle leaves nothing half made.
func (c cluster) ensure(ctx context.Context, passwordPath string) (string, error) {
	_, err := os.Stat(filepath.Join(c.data(), "PG_VERSION"))
	exists := err == nil
	if _, err := os.Stat(passwordPath); exists && errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s is missing, the data cannot be opened without it: restore it, or delete the data directory to start again", passwordPath)
	}
	secret, err := datadir.Secret(passwordPath, passwordBytes)
	if err != nil {
		return "", err
	}
	password := hex.EncodeToString(secret)
	if exists {
		return password, nil
	}
	return password, c.initialise(ctx, password)
}

func (c cluster) initialise(ctx context.Context, password string) error {
	fresh := filepath.Join(c.home, "cluster.new")
	for _, old := range []string{fresh, c.data()} {
		if err := os.RemoveAll(old); err != nil {
			return fmt.Errorf("clear %s: %w", old, err)
		}
	}
	if err := c.account.makeDir(fresh); err != nil {
		return err
	}
	// A pipe would not do: the dropped account may not open ours.
	pwfile := fresh + ".password"
	if err := c.account.writeFile(pwfile, password); err != nil {
		return err
	}
	defer os.Remove(pwfile) // a start killed before this overwrites and removes it later
	cmd := c.command("initdb", "-D", fresh, "-U", superuser, "-A", "scram-sha-256", "--pwfile="+pwfile,
		"-E", "UTF8", "--lc-collate=C", "--lc-ctype="+ctype(), "--no-instructions")
	if out, err := runProcess(ctx, cmd); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, lastLine(string(out)))
	}
	if err := os.Rename(fresh, c.data()); err != nil {
		return fmt.Errorf("initdb: %w", err)
	}
	return nil
}

// command runs one of the install's binaries as the server's account, without
// our environment: PGDATA and its like must not reach it.
func (c cluster) command(name string, args ...string) *exec.Cmd {
	cmd := &exec.Cmd{
		Path: filepath.Join(c.install.bin, name),
		Args: append([]string{name}, args...),
		Env:  []string{"PATH=" + c.install.bin + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"},
		Dir:  c.home,
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if c.account != nil {
		cmd.SysProcAttr.Credential = c.account.credential()
	}
	return cmd
}

// admit lets the account through dir where that is ours to do: a directory of
// mode 0700 whose parents are open, such as os.MkdirTemp makes. Every secret in
// it is a file of mode 0600.
func (c cluster) admit(ctx context.Context, dir string) bool {
	if c.canEnter(ctx, dir) {
		return true
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&0o001 != 0 {
		return false // it is a parent that keeps the account out
	}
	if err := os.Chmod(dir, info.Mode().Perm()|0o011); err != nil {
		return false
	}
	return c.canEnter(ctx, dir)
}

// canEnter tries, since modes, ACLs and mounts all have a say.
func (c cluster) canEnter(ctx context.Context, dir string) bool {
	if c.account == nil {
		return true
	}
	cmd := c.command("postgres", "--version")
	cmd.Dir = dir
	_, err := runProcess(ctx, cmd)
	return err == nil
}

// serverArgs are the settings of a small server that loses nothing: fsync and
// synchronous_commit stay on. They are given at each start, so they follow the
// program and not the day the cluster was made.
func (c cluster) serverArgs(port int) []string {
	args := []string{"-D", c.data()}
	for _, setting := range [][2]string{
		{"listen_addresses", "127.0.0.1"},
		{"port", strconv.Itoa(port)},
		{"unix_socket_directories", ""},
		{"cluster_name", c.name},
		{"password_encryption", "scram-sha-256"},
		{"max_connections", "120"},
		{"shared_buffers", "24MB"},
		{"work_mem", "4MB"},
		{"maintenance_work_mem", "32MB"},
		{"huge_pages", "off"},
		{"dynamic_shared_memory_type", "mmap"}, // containers have a /dev/shm of 64 MB
		{"max_parallel_workers_per_gather", "0"},
		{"jit", "off"},
		{"fsync", "on"},
		{"synchronous_commit", "on"},
		{"full_page_writes", "on"},
		{"wal_level", "minimal"}, // no replica ever follows
		{"max_wal_senders", "0"},
		{"wal_buffers", "8MB"},
		{"wal_compression", "on"},
		{"min_wal_size", "160MB"}, // recycled segments cost less than new ones
		{"max_wal_size", "1GB"},
		{"checkpoint_timeout", "15min"},
		{"log_min_messages", "warning"},
		{"log_checkpoints", "off"},
		{"log_line_prefix", "%m [%p] "},
		{"log_timezone", "UTC"},
		{"timezone", "UTC"},
	} {
		args = append(args, "-c", setting[0]+"="+setting[1])
	}
	return args
}
