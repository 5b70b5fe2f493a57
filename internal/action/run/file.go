package run

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"agentruntime/internal/base/actor"
	"agentruntime/internal/base/fault"
)

// File is what the result of a run says of its file.
type File struct {
	TenantID, RunID uuid.UUID
	ID              uuid.UUID `json:"id"`
	MediaType       string    `json:"media_type"`
	Size            int64     `json:"size"`
	SHA256          string    `json:"sha256"`
	Name            string    `json:"name"`
}

// File returns the file that the result of an execution names. A caller that may read the execution
// may read it. The error is RESULT_EXPIRED where the result is no longer kept, FILE_NOT_FOUND where it names no such
// file, and as for Get.
func (s *Service) File(ctx context.Context, who actor.Actor, executionID, fileID string) (File, error) {
	r, err := s.Get(ctx, who, executionID)
	switch {
	case err != nil:
		return File{}, err
	case r.ErasedAt != nil:
		return File{}, r.resultExpired()
	case slices.Contains(r.Unreadable, unreadableResult):
		return File{}, r.unreadable()
	}
	var result struct{ File File }
	if json.Unmarshal(r.Result, &result) != nil || result.File.ID == uuid.Nil || result.File.ID.String() != fileID {
		return File{}, fault.New(fault.CodeFileNotFound, "")
	}
	f := result.File
	f.TenantID, f.RunID = r.TenantID, r.ID
	return f, nil
}
