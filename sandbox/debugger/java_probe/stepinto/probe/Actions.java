package stepinto.probe;

import com.sun.jdi.ThreadReference;
import com.sun.jdi.Value;
import java.util.*;
import stepinto.probe.program.*;
import stepinto.probe.program.Stack;
import stepinto.probe.rendering.Rendered;
import stepinto.probe.rendering.ValueText;
import stepinto.probe.stops.Breakpoint;
import stepinto.probe.wire.Limits;
import stepinto.probe.wire.Refusal;
import stepinto.probe.wire.Request;

/** The requests that look at a stopped program or change it. */
final class Actions {
    private final Debugging debugging;
    private final Describer describer;
    private final Limits limits;
    /** The frames to look at; null before the first stop. */
    Stack stack;

    Actions(Debugging debugging, Describer describer, Limits limits) {
        this.debugging = debugging;
        this.describer = describer;
        this.limits = limits;
    }

    Map<String, Object> handle(Request request) throws Refusal {
        debugging.invoker.until(request.deadline);
        debugging.values.begin();
        try {
            return dispatch(request);
        } catch (EvaluationFailed failed) {
            throw new Refusal(failed.timedOut ? "timeout" : "evaluation", failed.getMessage());
        }
    }

    private Map<String, Object> dispatch(Request request) throws Refusal, EvaluationFailed {
        Map<String, Object> answer = new LinkedHashMap<>();
        int start = Math.max(request.number("start"), 0);
        switch (request.action) {
            case "locals":
                Variables variables = Variables.of(frame(request));
                int total = variables.values.size();
                int first = Math.min(start, total);
                answer = describer.values(variables.values.subList(first, total), first, total);
                Describer.addNotes(answer, variables.notes);
                return answer;
            case "stack":
                return describer.stack(stack, Math.min(start, stack.size()));
            case "threads":
                answer.put("threads", threads());
                return answer;
            case "evaluate":
                Value value = valueOf(request);
                Rendered text = debugging.values.render(value, start);
                Named named = new Named(request.text("expression"), null, value);
                answer.put("values", Collections.singletonList(describer.value(named, text)));
                if (text.nextStart != Rendered.END) {
                    answer.put("next_start", text.nextStart);
                }
                return answer;
            case "fields":
                ValueText.Page page =
                        debugging.values.page(valueOf(request), start, limits.maxValues);
                return describer.values(page.values, start, page.size);
            case "run_code":
                String code = request.text("code");
                debugging.evaluator.runCode(code, frame(request), request.millisLeft());
                return answer;
            case "set_breakpoint":
                List<String> notes = new ArrayList<>();
                Breakpoint point = debugging.table.add(request.arguments, notes);
                List<Breakpoint> points = Collections.singletonList(point);
                answer.put("breakpoints", debugging.table.describe(points));
                answer.put("notes", notes);
                return answer;
            case "remove_breakpoint":
                debugging.table.remove(request.number("number"));
                return answer;
            case "list_breakpoints":
                return answer;
            default:
                throw new Refusal("there is no action " + request.action);
        }
    }

    private FrameAt frame(Request request) throws Refusal {
        int index = request.number("frame");
        if (stack == null || stack.isEmpty()) {
            throw new Refusal("the program has no frame to look at here");
        }
        if (index < 0 || index >= stack.size()) {
            int last = stack.size() - 1;
            throw new Refusal(
                    "there is no frame " + index + "; the stack has frames 0 to " + last);
        }
        return stack.frames.get(index);
    }

    private Value valueOf(Request request) throws Refusal, EvaluationFailed {
        String expression = request.text("expression");
        return debugging.evaluator.evaluate(expression, frame(request), request.millisLeft());
    }

    /** Every thread that is in the program's code, and where; the current one first. */
    private List<Object> threads() {
        ThreadReference current = stack == null ? debugging.mainThread : stack.thread;
        Set<ThreadReference> threads = new LinkedHashSet<>();
        threads.add(current);
        threads.addAll(debugging.diagnosis.ownThreads(debugging.mainThread));
        List<Object> shown = new ArrayList<>();
        for (ThreadReference thread : threads) {
            Stack frames = new Stack(thread, debugging.program);
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("name", thread.name());
            fields.put("current", thread.equals(current));
            fields.put("doing", debugging.diagnosis.doing(thread));
            int end = Math.min(frames.size(), limits.maxFrames);
            fields.put("frames", describer.frames(frames, 0, end));
            shown.add(fields);
        }
        return shown;
    }
}
