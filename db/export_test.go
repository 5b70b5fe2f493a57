package db

import (
	"context"
	"fmt"
)

// MigrateDown takes the schema back to a version, 0 for an empty one.
func MigrateDown(ctx context.Context, url string, version int64) error {
	p, done, err := provider(url)
	if err != nil {
		return err
	}
	defer done()
	if _, err := p.DownTo(ctx, version); err != nil {
		return fmt.Errorf("db: migrate down to %d: %w", version, err)
	}
	return nil
}

// Newest returns the version of the newest migration.
func Newest(url string) (int64, error) {
	p, done, err := provider(url)
	if err != nil {
		return 0, err
	}
	defer done()
	sources := p.ListSources()
	return sources[len(sources)-1].Version, nil
}
