// @ts-check
// Addresses of the console's own files. The server joins the modules into js/start.js, so `import.meta.url` is right only
// in modules directly below js/.

export const assetUrl = (path) => new URL(`../${path}`, import.meta.url).pathname;
