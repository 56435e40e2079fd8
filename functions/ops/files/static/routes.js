// @ts-check
/** The pages of the console: address, name, whether it stands in the menu, module. A page is loaded when it is first opened. */

/** @type {{ path: string, name: string, key?: string, page: () => Promise<import("./router.js").Page> }[]} `key`: after `g`, and in the menu */
export const ROUTES = [
  { path: "/now", name: "Now", key: "n", page: () => import("./pages/now.js") },
  { path: "/executions", name: "Executions", key: "e", page: () => import("./pages/executions.js") },
  { path: "/executions/:id", name: "Execution", page: () => import("./pages/execution.js") },
  { path: "/inbox", name: "Inbox", key: "i", page: () => import("./pages/inbox.js") },
  { path: "/inbox/:execution/:step", name: "Approval", page: () => import("./pages/approval.js") },
  { path: "/pieces", name: "Pieces", key: "p", page: () => import("./pages/pieces.js") },
  { path: "/pieces/:key", name: "Piece", page: () => import("./pages/piece.js") },
  { path: "/verdicts", name: "Verdicts", page: () => import("./pages/verdicts.js") },
  { path: "/hired", name: "Hired work", key: "h", page: () => import("./pages/hired.js") },
  { path: "/hired/contracts", name: "Contracts", page: () => import("./pages/contracts.js") },
  { path: "/hired/money", name: "Money", page: () => import("./pages/money.js") },
  { path: "/hired/:contract", name: "Task", page: () => import("./pages/task.js") },
  { path: "/agents", name: "Agents", key: "a", page: () => import("./pages/agents.js") },
  { path: "/policy", name: "Policy", key: "y", page: () => import("./pages/policy.js") },
  { path: "/operations", name: "Operations", key: "o", page: () => import("./pages/operations.js") },
  { path: "/find", name: "Search", page: () => import("./pages/find.js") },
];
