package cli

import (
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"

	"agentruntime/internal/process/app"
	"agentruntime/internal/process/config"
)

// codecCommand serves payloads in the clear to operators. There is no way to run it without
// a guard.
func codecCommand() *cobra.Command {
	return &cobra.Command{
		Use: "codec", Short: "Decode payloads for operators in the Temporal UI",
		Long: `Serves POST /decode, which the Temporal UI calls to show inputs and results. The caller
needs a token of the operators' own issuer: CODEC_JWKS_URL, CODEC_ISSUER, CODEC_AUDIENCE and
CODEC_CLAIM say which. CODEC_ORIGINS are the origins of the Temporal UIs. It listens on LISTEN.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(Needs("codec")...)
			if err != nil {
				return err
			}
			log, err := app.Log(cfg, os.Stderr)
			if err != nil {
				return err
			}
			guard, err := app.OperatorGuard(cfg)
			if err != nil {
				return err
			}
			l, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", cfg.Listen)
			if err != nil {
				return fmt.Errorf("listen on LISTEN=%s: %w", cfg.Listen, err)
			}
			log.InfoContext(cmd.Context(), "codec listens", "address", l.Addr().String())
			return app.RunCodec(cmd.Context(), cfg, guard, l, log)
		},
	}
}
