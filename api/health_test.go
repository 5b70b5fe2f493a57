package api

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadyzWithWarningsIsReadyAndSaysThem(t *testing.T) {
	t.Parallel()
	for warning, want := range map[string]string{
		"":                 `{"status":"ready"}`,
		"Something to do.": `{"status":"ready","warnings":["Something to do."]}`,
	} {
		s := &Server{ready: func(context.Context) ([]string, error) {
			if warning == "" {
				return nil, nil
			}
			return []string{warning}, nil
		}}
		reply, err := s.readyz(t.Context(), nil)
		require.NoError(t, err)
		text, err := json.Marshal(reply.Data)
		require.NoError(t, err)
		require.JSONEq(t, want, string(text))
	}
}
