package devserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/tools/common/schema"
	sqltool "go.temporal.io/server/tools/sql"
	"google.golang.org/protobuf/types/known/durationpb"

	"agentruntime/internal/base/flow"
)

// visibilityConns is the size of the visibility store's pool. Two cores keep no
// more than a few connections busy.
const visibilityConns = 4

// mainStore is an SQLite file. WAL with synchronous NORMAL keeps everything that
// was committed when the process is killed; a power cut may cost the last
// moments. One connection: SQLite has one writer, and a second connection only
// adds waiting for its lock.
func mainStore(path string) *config.SQL {
	return &config.SQL{
		PluginName:   sqliteplugin.PluginName,
		DatabaseName: path,
		ConnectAttributes: map[string]string{
			"mode":         "rwc",
			"journal_mode": "wal",
			"synchronous":  "normal",
			"busy_timeout": "10000", // ms
		},
	}
}

// prepareMainStore sets the schema up at the first start and registers the
// namespace. A file is given its name once its schema is whole, so a start that
// was killed in the middle leaves nothing half made.
func prepareMainStore(ctx context.Context, store *config.SQL, namespace string) error {
	if _, err := os.Stat(store.DatabaseName); errors.Is(err, fs.ErrNotExist) {
		if err := createMainStore(ctx, store); err != nil {
			return fmt.Errorf("set up the main store: %w", err)
		}
	}
	ns, err := sqlite.NewNamespaceConfig(clusterName, namespace, false, searchAttributes())
	if err != nil {
		return fmt.Errorf("register namespace: %w", err)
	}
	ns.Detail.Config.Retention = durationpb.New(namespaceRetention)
	if err := sqlite.CreateNamespaces(store, ns); err != nil {
		return fmt.Errorf("register namespace: %w", err)
	}
	return nil
}

// searchAttributes are those of the service, with their types. A namespace that was made before
// gets them by engine.Register.
func searchAttributes() map[string]enumspb.IndexedValueType {
	types := map[string]enumspb.IndexedValueType{}
	for _, name := range flow.SearchAttributes() {
		types[string(name)] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	return types
}

// prepareVisibility brings the Postgres schema to the server's version, with the
// files embedded in the server's module. It returns nil where there is no
// Postgres.
func prepareVisibility(rawURL string, logger log.Logger) (*config.SQL, error) {
	if rawURL == "" {
		return nil, nil //nolint:nilnil // nil is the documented value of "the main store"
	}
	store, err := visibilityStore(rawURL)
	if err != nil {
		return nil, err
	}
	conn, err := sqltool.NewConnection(store, logger)
	if err != nil {
		return nil, fmt.Errorf("connect to the visibility store: %w", err)
	}
	defer conn.Close()
	if _, err := conn.ReadSchemaVersion(); err != nil { // no such table: an empty database
		setup := schema.NewSetupSchemaTask(conn, &schema.SetupConfig{InitialVersion: "0.0"}, logger)
		if err := setup.Run(); err != nil {
			return nil, fmt.Errorf("set up the visibility store: %w", err)
		}
	}
	update := schema.NewUpdateSchemaTask(conn, &schema.UpdateConfig{
		DBName: store.DatabaseName, SchemaName: "postgresql/v12/visibility",
	}, logger)
	if err := update.Run(); err != nil {
		return nil, fmt.Errorf("update the visibility store: %w", err)
	}
	if err := dropIdleIndexes(conn); err != nil {
		return nil, fmt.Errorf("update the visibility store: %w", err)
	}
	return store, nil
}

// dropIdleIndexes keeps those of the 75 indexes that the lists of a development
// server use. Each record is written twice, and every index with it; a search by
// one of the other attributes reads the table, which is small here.
func dropIdleIndexes(conn *sqltool.Connection) error {
	return conn.Exec(`DO $$
		DECLARE idle text;
		BEGIN
			FOR idle IN
				SELECT i.indexrelid::regclass::text FROM pg_index i
				WHERE i.indrelid = 'executions_visibility'::regclass AND NOT i.indisunique
					AND i.indexrelid::regclass::text NOT IN ('default_idx', 'by_workflow_id', 'by_status')
			LOOP
				EXECUTE 'DROP INDEX ' || idle;
			END LOOP;
		END $$`)
}

// visibilityStore turns a Postgres URL into the server's form of it. Visibility
// is a copy for lists and searches, so its sessions, and only they, commit without
// waiting for the disk. A kill of Postgres can cost the last moments: the list then
// goes on calling a workflow running that has closed, while its history is right.
func visibilityStore(rawURL string) (*config.SQL, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("the address of the visibility store is not a URL") // the cause would quote its password
	}
	password, _ := u.User.Password()
	attrs := map[string]string{"synchronous_commit": "off"}
	for name, values := range u.Query() {
		attrs[name] = values[0]
	}
	return &config.SQL{
		PluginName:        postgresql.PluginNamePGX,
		DatabaseName:      strings.TrimPrefix(u.Path, "/"),
		ConnectAddr:       u.Host,
		ConnectProtocol:   "tcp",
		User:              u.User.Username(),
		Password:          password,
		ConnectAttributes: attrs,
		MaxConns:          visibilityConns,
		MaxIdleConns:      visibilityConns,
		MaxConnLifetime:   time.Hour,
	}, nil
}

func createMainStore(_ context.Context, store *config.SQL) error {
	fresh := *store
	fresh.DatabaseName += ".new"
	// DELETE mode leaves one file, which can be renamed.
	fresh.ConnectAttributes = map[string]string{"mode": "rwc", "journal_mode": "delete"}
	if err := os.Remove(fresh.DatabaseName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := sqlite.SetupSchema(&fresh); err != nil {
		return err
	}
	return os.Rename(fresh.DatabaseName, store.DatabaseName)
}
