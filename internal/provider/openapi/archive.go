package openapi

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"agentruntime/internal/base/argschema"
	"agentruntime/internal/base/fault"
)

// Bounds of an archive. Its files are JSON and YAML, which rarely shrink to a hundredth.
const (
	maxFiles     = 5_000
	maxRatio     = 200
	freeRatio    = 1 << 20 // bytes of an expanded archive whose ratio does not matter
	maxFileName  = 500     // bytes
	zipEncrypted = 1       // the flag of an entry
)

// isArchive reports whether a document is a zip archive. No text begins like one.
func isArchive(raw []byte) bool {
	return bytes.HasPrefix(raw, []byte("PK\x03\x04")) || bytes.HasPrefix(raw, []byte("PK\x05\x06"))
}

// archive is the files of a zip archive by their names.
type archive map[string]*zip.File

// openArchive reads the list of files. It refuses what is too much to expand before anything is
// expanded, and names that lead out of the archive.
func (w *work) openArchive(raw []byte) (archive, error) {
	r, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return nil, badArchive("zip", "The document begins like a zip archive and cannot be read as one.")
	}
	if len(r.File) > maxFiles {
		return nil, badArchive("files", "The archive has too many files.")
	}
	files, total := archive{}, uint64(0)
	for _, f := range r.File {
		name := argschema.Shorten(strings.ToValidUTF8(f.Name, "?"), maxSchemeName)
		switch mode := f.Mode(); {
		case !usableFile(strings.TrimSuffix(f.Name, "/")):
			return nil, badArchive("path", "The archive has a file whose name leads out of it or is not usable: "+name+".")
		case mode.IsDir():
			continue
		case !mode.IsRegular():
			return nil, badArchive("link", "The archive has a link or another special file: "+name+". Pack the files themselves.")
		case f.Flags&zipEncrypted != 0:
			return nil, badArchive("encrypted", "The archive has an encrypted file: "+name+".")
		case files[f.Name] != nil:
			return nil, badArchive("duplicate_name", "The archive has a file twice: "+name+".")
		}
		files[f.Name] = f
		if total += f.UncompressedSize64; total > maxExpanded {
			return nil, badArchive("size", "The archive has more than 25 MiB when it is expanded.")
		}
	}
	if total > freeRatio && total/uint64(max(len(raw), 1)) > maxRatio {
		return nil, badArchive("ratio", "The archive expands to more than 200 times its size.")
	}
	if w.small && total > MaxSmallDocument {
		return nil, ErrNotSmall
	}
	return files, nil
}

// usableFile reports whether a file of an archive may have the name: a path that leads down only.
func usableFile(name string) bool {
	return len(name) <= maxFileName && fs.ValidPath(name) && name != "." && !strings.ContainsAny(name, "\\\x00")
}

// Pack returns an archive of files by their names. It is the same for the same files. They are not
// compressed, because what is kept of a document is.
func Pack(files map[string][]byte) ([]byte, error) {
	var out bytes.Buffer
	size := 0
	for name, body := range files {
		size += len(body) + 2*len(name) + 256
	}
	out.Grow(size)
	w := zip.NewWriter(&out)
	for _, name := range sortedKeys(files) {
		to, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err == nil {
			_, err = to.Write(files[name])
		}
		if err != nil {
			return nil, fmt.Errorf("openapi: pack a document: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("openapi: pack a document: %w", err)
	}
	return out.Bytes(), nil
}

func badArchive(rule, message string) error { return fault.Invalid("/openapi", rule, message) }

// read returns the bytes of a file. Its size was counted as the archive says it, so more is an error.
func (a archive) read(name string) ([]byte, error) {
	f, has := a[name]
	if !has {
		return nil, absent{"the file " + clip(name) + " is not there"}
	}
	r, err := f.Open()
	if err != nil {
		return nil, absent{"the file " + clip(name) + " cannot be unpacked"}
	}
	defer r.Close()
	raw, err := io.ReadAll(io.LimitReader(r, int64(f.UncompressedSize64)+1))
	if err != nil || uint64(len(raw)) != f.UncompressedSize64 {
		return nil, absent{"the file " + clip(name) + " cannot be unpacked"}
	}
	return raw, nil
}

// root returns the name of the document that refers to the others: the given one, the only file,
// or the only one at the top that is named like a document.
func (a archive) root(given string) (string, error) {
	if given != "" {
		if a[given] == nil {
			return "", fault.Invalid("/root", "unknown", "The archive has no such file. Write its path within the archive.")
		}
		return given, nil
	}
	var found []string
	for name := range a {
		stem := strings.TrimSuffix(name, path.Ext(name))
		if len(a) == 1 || (stem == "openapi" || stem == "swagger") && isDocumentName(name) {
			found = append(found, name)
		}
	}
	if len(found) != 1 {
		return "", fault.Invalid("/root", "required", "The archive does not have exactly one openapi.json, openapi.yaml, openapi.yml or swagger.* at its top. Name the document in root.")
	}
	return found[0], nil
}

func isDocumentName(name string) bool {
	switch path.Ext(name) {
	case ".json", ".yaml", ".yml":
		return true
	}
	return false
}
