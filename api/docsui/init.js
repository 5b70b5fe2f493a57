// Everything that would leave this host is off: fonts, proxy, telemetry, the
// assistant, links to a hosted client. The page's Content-Security-Policy allows
// no other host either.
Scalar.createApiReference('#app', {
  url: '/openapi.json',
  withDefaultFonts: false,
  telemetry: false,
  agent: { disabled: true },
  showDeveloperTools: 'never',
  hideClientButton: true,
  documentDownloadType: 'direct',
  operationTitleSource: 'summary',
  orderSchemaPropertiesBy: 'preserve',
  defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
  persistAuth: false,
});
