package api

import (
	"context"
	"encoding/binary"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"agentruntime/api/wire"
	"agentruntime/internal/base/fault"
)

// What Maps, agents and policies share: each is a definition with versions.

// The statuses of a version.
const (
	versionDraft     = "draft"
	versionPublished = "published" // triggers run it, or it answers messages
)

// definitionVersion is a version of a Map or an agent in a list.
type definitionVersion struct {
	Version     int32      `json:"version"`
	Name        string     `json:"name"`
	Status      string     `json:"status"`
	Size        int32      `json:"size"`
	Digest      string     `json:"digest"`
	CreatedAt   time.Time  `json:"created_at"`
	CreatedBy   string     `json:"created_by"`
	PublishedAt *time.Time `json:"published_at"`
	PublishedBy *string    `json:"published_by"`
}

// statusOfVersion says whether a version is the published one.
func statusOfVersion(current bool) string {
	if current {
		return versionPublished
	}
	return versionDraft
}

// answerCreated answers with a definition that the call has created under the path.
func answerCreated(rep wire.Reply, path string, id uuid.UUID) wire.Reply {
	rep.Status = http.StatusCreated
	rep.Header.Set("Location", path+"/"+id.String())
	return rep
}

// listVersions answers with a page of the versions of the definition that the path names, the newest
// first.
func listVersions[T, V any](
	ctx context.Context, c *wire.Call, read func(ctx context.Context, tenant, id uuid.UUID, before int32, limit int) ([]T, bool, error),
	view func(T) V, number func(T) int32,
) (wire.Reply, error) {
	limit, cursor, err := c.PageByID()
	if err != nil {
		return wire.Reply{}, err
	}
	page, more, err := read(ctx, c.Actor.TenantID, c.ID(), versionOf(cursor), limit)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.ListByID(limit, page, more, view, func(v T) uuid.UUID { return cursorOf(number(v)) }), nil
}

// pathVersion returns the number of the version that the path names. What is no number of a version is
// refused with notFound.
func pathVersion(c *wire.Call, notFound fault.Code) (int32, error) {
	number, err := strconv.ParseInt(c.Param("version"), 10, 32)
	if err != nil || number < 1 {
		return 0, fault.New(notFound, "")
	}
	return int32(number), nil
}

// queryVersion returns the number of the version that a query parameter names, and 0 where it is absent.
func queryVersion(c *wire.Call, name string) (int32, error) {
	text, given := c.Query(name)
	if !given {
		return 0, nil
	}
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil || number < 1 {
		return 0, fault.Invalid("query."+name, "minimum", name+" is the number of a version, from 1.")
	}
	return int32(number), nil
}

// A cursor is a UUID. That of a version has the version number in its last bytes.
const versionAt = 12

func cursorOf(version int32) (id uuid.UUID) {
	binary.BigEndian.PutUint32(id[versionAt:], uint32(version))
	return id
}

func versionOf(cursor *uuid.UUID) int32 {
	if cursor == nil {
		return 0
	}
	return int32(binary.BigEndian.Uint32(cursor[versionAt:]))
}
