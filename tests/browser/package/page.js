import * as headlight from 'headlight-wasm';

Object.assign(window, { headlight });
