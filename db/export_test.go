package db

import (
	"context"
	"fmt"
)

// MigrateDown takes the schema back to empty.
func MigrateDown(ctx context.Context, url string) error {
	p, done, err := provider(url)
	if err != nil {
		return err
	}
	defer done()
	if _, err := p.DownTo(ctx, 0); err != nil {
		return fmt.Errorf("db: migrate down: %w", err)
	}
	return nil
}
