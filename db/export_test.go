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

// MigrateDownAndUpEach takes the schema back to nothing, version by version, and each version up
// and down again on its way.
func MigrateDownAndUpEach(ctx context.Context, url string) error {
	p, done, err := provider(url)
	if err != nil {
		return err
	}
	defer done()
	for {
		version, err := p.GetDBVersion(ctx)
		if err != nil || version == 0 {
			return err
		}
		if _, err := p.Down(ctx); err != nil {
			return fmt.Errorf("db: migrate down from %d: %w", version, err)
		}
		if _, err := p.UpByOne(ctx); err != nil {
			return fmt.Errorf("db: migrate up again to %d: %w", version, err)
		}
		if _, err := p.Down(ctx); err != nil {
			return fmt.Errorf("db: migrate down again from %d: %w", version, err)
		}
	}
}
