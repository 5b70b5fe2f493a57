package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user that the server runs as when we are root. All methods
// take a nil account, which is our own.
type account struct{ uid, gid int }

// serverAccount returns nil for an ordinary user. Root becomes the owner of a
// cluster that is there already, else postgres, else nobody.
func serverAccount(data string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // nil is the documented value of "our own uid"
	}
	if info, err := os.Stat(data); err == nil {
		if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 {
			return &account{uid: int(owner.Uid), gid: int(owner.Gid)}, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.Atoi(u.Uid)
		gid, gidErr := strconv.Atoi(u.Gid)
		if uidErr == nil && gidErr == nil {
			return &account{uid: uid, gid: gid}, nil
		}
	}
	return nil, errors.New("Postgres does not run as root, and there is neither a user postgres nor nobody to run it as: add one with `useradd -r postgres`") //nolint:staticcheck // Postgres is a name
}

func (a *account) credential() *syscall.Credential {
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid), Groups: []uint32{uint32(a.gid)}}
}

// makeDir makes a directory that only the account may enter.
func (a *account) makeDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return a.own(dir)
}

// writeFile writes a file that only the account may read.
func (a *account) writeFile(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return a.own(path)
}

func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	if err := os.Lchown(path, a.uid, a.gid); err != nil {
		return fmt.Errorf("give %s to the server's account: %w", path, err)
	}
	return nil
}
