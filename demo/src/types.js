/**
 * Shapes shared by the page's modules. The engine's own types come from `headlight-wasm`.
 *
 * @typedef {object} ModelEntry  One line of the model list, from models/manifest.json.
 * @property {string} id
 * @property {string} name
 * @property {string} file          file name below models/
 * @property {number} size          bytes
 * @property {string} [sha256]      hex
 * @property {string} licence
 * @property {string} architecture
 * @property {string} note          one sentence for people who choose
 * @property {string[]} urls        where a static page downloads it from, first that answers
 * @property {boolean} beside       true when the file lies next to the page
 *
 * @typedef {object} LoadState
 * @property {string} name
 * @property {string} stage
 * @property {number} loaded          bytes
 * @property {number} total           bytes, 0 when unknown
 * @property {number} bytesPerSecond
 * @property {boolean} fromStore
 *
 * @typedef {object} ModelState
 * @property {string} name
 * @property {string} architecture
 * @property {string} kind            MHA, GQA, MQA or MLA
 * @property {string} quantization
 * @property {number} layers
 * @property {number} heads
 * @property {number} kvHeads
 * @property {number} parameters
 * @property {number} bytes           size of the file, 0 when unknown
 *
 * @typedef {object} AnswerStats
 * @property {number} promptTokens    tokens of the prompt that were evaluated
 * @property {number} cachedTokens    tokens of the prompt that were in the cache already
 * @property {number} promptRate      tokens per second
 * @property {number} answerTokens
 * @property {number} answerRate      tokens per second
 * @property {number} seed
 * @property {string} finish          stop, length, abort or full
 *
 * @typedef {object} ChatMessage
 * @property {number} id
 * @property {'user' | 'assistant'} role
 * @property {string} content
 * @property {AnswerStats} [stats]    of a finished answer
 * @property {boolean} [failed]       true when an error ended the answer
 *
 * @typedef {object} Settings
 * @property {string} system
 * @property {number} temperature
 * @property {number} topP
 * @property {string} seed            a whole number, or '' for a new one each time
 * @property {number} maxTokens
 *
 * @typedef {object} Notice
 * @property {'error' | 'info'} kind
 * @property {string} title
 * @property {string} text            what happened and what to do
 * @property {'reload' | 'new-chat'} [action]
 *
 * @typedef {object} Token
 * @property {number} id
 * @property {string} text
 *
 * @typedef {{ row: number, col: number }} Cell   query position and key position
 *
 * @typedef {object} AttentionState
 * @property {number} layer
 * @property {number} head            -1 is the mean over the heads
 * @property {'map' | 'text'} view
 * @property {'linear' | 'log'} scale
 * @property {boolean} hideSink       leave out the first position and renormalise
 * @property {boolean} table          show the cursor's row as a table
 * @property {Cell | null} cursor
 * @property {number | null} pinned   query position pinned in the text view
 * @property {number} zoom            1 shows everything, 2 a half of each axis, ...
 * @property {import('./attention-map.js').AttentionMap} map
 * @property {number} version         grows with every row
 * @property {boolean} filling        rows of earlier tokens are being computed
 *
 * @typedef {object} CacheSample
 * @property {number} positions
 * @property {number} used            bytes
 * @property {number} reserved        bytes
 *
 * @typedef {object} CacheLine  Bytes against positions, as the engine's kvPlan gives them.
 * @property {string} kind
 * @property {boolean} own               the loaded model as it is
 * @property {number} bytesPerToken      of one more position, until the window is full
 * @property {number} laterBytesPerToken  of one more position, from then on
 * @property {number} window             positions; 0: no window
 *
 * @typedef {object} CachePlan
 * @property {string} kind
 * @property {string} formula         in words and numbers
 * @property {CacheLine[]} shapes     the model, and the same model with other cache layouts
 *
 * @typedef {object} CacheState
 * @property {CacheSample[]} samples  by position, rising
 * @property {CachePlan | null} plan
 * @property {string} type            f32, f16 or q8_0
 * @property {number} blockPositions
 * @property {{ positions: number, state: string }[]} blocks  filled positions of each block
 *
 * @typedef {object} EngineState
 * @property {boolean} isolated
 * @property {number} threads
 * @property {string} variant
 * @property {string} why             why there is one thread, '' otherwise
 *
 * @typedef {object} State
 * @property {'phone' | 'two' | 'three'} layout
 * @property {'chat' | 'attention' | 'cache'} panel
 * @property {'system' | 'light' | 'dark'} theme
 * @property {EngineState | null} engine
 * @property {ModelEntry[]} models
 * @property {boolean} picking        the model list is shown instead of the chat
 * @property {LoadState | null} load
 * @property {ModelState | null} model
 * @property {Notice | null} notice
 * @property {ChatMessage[]} messages
 * @property {boolean} streaming
 * @property {number | null} editing  id of the message that is being edited
 * @property {boolean} settingsOpen
 * @property {Settings} settings
 * @property {{ used: number, limit: number }} context
 * @property {Token[]} tokens         by position
 * @property {AttentionState} attention
 * @property {CacheState} cache
 */

export {};
