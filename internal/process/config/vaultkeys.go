package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxKeysFile is more than a file of keys has, in bytes. A wrong path may name something huge.
const maxKeysFile = 1 << 20

// readVaultKeys puts the keys of VAULT_KEYS_FILE into VaultKeys.
func (c *Config) readVaultKeys() error {
	if c.VaultKeysFile == "" {
		return nil
	}
	if c.VaultKeys != "" {
		return errors.New("config: VAULT_KEYS_FILE: VAULT_KEYS is set too; set one of the two")
	}
	text, err := readBounded(c.VaultKeysFile)
	if err != nil {
		return fmt.Errorf("config: VAULT_KEYS_FILE: %w", err)
	}
	c.VaultKeys = string(text)
	return nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the operator's setting names the file
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeysFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxKeysFile:
		return nil, fmt.Errorf("%s has more than %d bytes, so it is no file of keys", path, maxKeysFile)
	case len(bytes.TrimSpace(text)) == 0:
		return nil, fmt.Errorf("%s is empty", path)
	}
	return text, nil
}

// vaultKeys returns the keys of VAULT_KEYS without their ids. The vault checks their form.
func vaultKeys(text string) []string {
	var keys []string
	for entry := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == ',' }) {
		entry = strings.TrimSpace(entry)
		if entry == "" || strings.HasPrefix(entry, "#") {
			continue
		}
		_, key, _ := strings.Cut(entry, ":")
		keys = append(keys, strings.TrimSpace(key))
	}
	return keys
}
