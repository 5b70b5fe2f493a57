package egress_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentruntime/internal/base/fault"
	"agentruntime/internal/edge/egress"
)

func TestCheckURLUnsafeIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ public, dev bool }{
		"https://api.example.com":                        {true, true},
		"https://api.example.com:8443/v1":                {true, true},
		"https://8.8.8.8/":                               {true, true},
		"http://api.example.com":                         {false, false},
		"http://127.0.0.1:4010":                          {false, true},
		"http://localhost:4010/v1":                       {false, true},
		"http://[::1]:4010":                              {false, true},
		"https://127.0.0.1":                              {false, true},
		"https://localhost":                              {false, true},
		"https://a.localhost.":                           {false, false},
		"https://10.0.0.1":                               {false, false},
		"https://[::ffff:10.0.0.1]":                      {false, false},
		"https://169.254.169.254/latest":                 {false, false},
		"https://user:pass@api.example.com":              {false, false},
		"https://user@api.example.com":                   {false, false},
		"https://api.example.com/#x":                     {false, false},
		"https://api.example.com/#":                      {false, false},
		"ftp://api.example.com":                          {false, false},
		"file:///etc/passwd":                             {false, false},
		"https://":                                       {false, false},
		"https:api.example.com":                          {false, false},
		"//api.example.com":                              {false, false},
		"api.example.com":                                {false, false},
		"":                                               {false, false},
		"https://%zz":                                    {false, false},
		"https://0x7f.1":                                 {false, false},
		"http://0x7f.1:4010":                             {false, false},
		"https://0x7f000001":                             {false, false},
		"https://0X7F.0.0.1":                             {false, false},
		"https://2130706433":                             {false, false},
		"https://127.1":                                  {false, false},
		"https://0177.0.0.1":                             {false, false},
		"https://017700000001":                           {false, false},
		"https://127.0.0.1.":                             {false, false},
		"https://10.0.0.1.":                              {false, false},
		"https://8.8.2056":                               {false, false},
		"https://1.2.3.4.5":                              {false, false},
		"https://256.1.1.1":                              {false, false},
		"https://0x":                                     {false, false},
		"https://example.0x1":                            {false, false},
		"https://api.0xample.com":                        {true, true},
		"https://1.2.3.example.com":                      {true, true},
		"https://１２７.0.0.1":                              {false, false},
		"https://ｌｏｃａｌｈｏｓｔ":                              {false, false},
		"https://b\u00fccher.example":                    {false, false},
		"https://xn--bcher-kva.example":                  {true, true},
		"https://my_shop.example.com":                    {true, true},
		"https://[fe80::1%25eth0]":                       {false, false},
		"https://[::1]:0":                                {false, false},
		"https://api.example.com:0":                      {false, false},
		"https://api.example.com:65535":                  {true, true},
		"https://api.example.com:65536":                  {false, false},
		"https://api.example.com:99999":                  {false, false},
		"https://api.example.com:":                       {false, false},
		"http://127.0.0.1:70000":                         {false, false},
		"https://api.example.com.":                       {true, true},
		"https://api..example.com":                       {false, false},
		"https://-api.example.com":                       {false, false},
		"https://a.example\\@127.0.0.1":                  {false, false},
		"https://metadata.google.internal":               {false, false},
		"https://METADATA.Google.Internal.":              {false, false},
		"https://internal":                               {false, false},
		"https://printer.local":                          {false, false},
		"https://router.home.arpa":                       {false, false},
		"https://x.onion":                                {false, false},
		"https://shop.invalid":                           {false, false},
		"https://metadata":                               {false, false},
		"https://postgres:5432":                          {false, false},
		"https://internal.example.com":                   {true, true},
		"https://notinternal":                            {false, false},
		"https://local.example":                          {true, true},
		"https://a.example/" + strings.Repeat("x", 2100): {false, false},
	}
	for url, tc := range tests {
		t.Run(url[:min(len(url), 40)], func(t *testing.T) {
			t.Parallel()
			for _, c := range []struct {
				cfg egress.Config
				ok  bool
			}{{egress.Config{}, tc.public}, {egress.Config{AllowLoopback: true}, tc.dev}} {
				err := c.cfg.CheckURL(url)
				require.Equal(t, c.ok, err == nil, "%v %v", c.cfg, err)
				if err != nil {
					require.True(t, fault.HasCode(err, fault.CodeURLNotAllowed))
				}
			}
		})
	}
}
