package postgres

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"agentruntime/internal/dev/devserver/port"
)

// SQLSTATE codes, from the appendix of the Postgres manual.
const (
	duplicateDatabase = "42P04"
	duplicateObject   = "42710"
	uniqueViolation   = "23505" // what two racing CREATEs get
	objectInUse       = "55006"
)

// SuperuserURL returns the address of a database for the superuser, whom
// row-level security does not bind.
func (s *Server) SuperuserURL(db string) string { return s.url(superuser, s.password, db) }

// LoginURL returns the address of a database for a role, making the role if it
// is missing and letting it log in: no superuser, bound by row-level security.
// Its password stays the same for the life of the data directory.
func (s *Server) LoginURL(ctx context.Context, role, db string) (string, error) {
	mac := hmac.New(sha256.New, []byte(s.password))
	mac.Write([]byte(role))
	password := hex.EncodeToString(mac.Sum(nil))[:2*passwordBytes]
	name := pgx.Identifier{role}.Sanitize()
	err := s.exec(ctx, "CREATE ROLE "+name, duplicateObject, uniqueViolation)
	if err == nil {
		// The password is hex, so it needs no quoting.
		err = s.exec(ctx, "ALTER ROLE "+name+" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS PASSWORD '"+password+"'")
	}
	if err != nil {
		return "", fmt.Errorf("postgres: make role %s: %w", role, err)
	}
	return s.url(role, password, db), nil
}

func (s *Server) url(user, password, db string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(user, password),
		Host:     net.JoinHostPort(port.Loopback, strconv.Itoa(s.port)),
		Path:     "/" + db,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// CreateDatabase makes a database; one that is there already stays as it is.
func (s *Server) CreateDatabase(ctx context.Context, name string) error {
	if err := s.exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize(), duplicateDatabase, uniqueViolation); err != nil {
		return fmt.Errorf("postgres: create database %s: %w", name, err)
	}
	return nil
}

// CloneDatabase makes a new database as a copy of template, to which nobody may
// be connected. It is how each test gets a migrated database of its own. The files are copied: to
// log each page takes several times the CPU.
func (s *Server) CloneDatabase(ctx context.Context, template, name string) error {
	sql := fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s STRATEGY file_copy", pgx.Identifier{name}.Sanitize(), pgx.Identifier{template}.Sanitize())
	for range startAttempts {
		err := s.exec(ctx, sql)
		var pgErr *pgconn.PgError
		if err == nil || !errors.As(err, &pgErr) || pgErr.Code != objectInUse {
			return err
		}
		// A connection that was just closed is still counted for a moment.
		if err := wait(ctx, retryDelay); err != nil {
			return fmt.Errorf("postgres: clone database %s: %w", template, err)
		}
	}
	return fmt.Errorf("postgres: clone database %s: connections to it stay open", template)
}

// DropDatabase removes a database and ends the connections to it.
func (s *Server) DropDatabase(ctx context.Context, name string) error {
	return s.exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
}

// exec runs one statement as the superuser; the given SQLSTATE codes are success.
func (s *Server) exec(ctx context.Context, sql string, accept ...string) error {
	conn, err := pgx.Connect(ctx, s.SuperuserURL("postgres"))
	if err != nil {
		return fmt.Errorf("postgres: connect: %w", err)
	}
	defer conn.Close(ctx) // the statement is done or failed
	_, err = conn.Exec(ctx, sql)
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && slices.Contains(accept, pgErr.Code) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	return nil
}
