package stepinto.probe;

import com.sun.jdi.ThreadReference;
import com.sun.jdi.Value;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.FrameAt;
import stepinto.probe.program.Named;
import stepinto.probe.program.Stack;
import stepinto.probe.program.Variables;
import stepinto.probe.rendering.Fields;
import stepinto.probe.rendering.Rendered;
import stepinto.probe.stops.Breakpoint;
import stepinto.probe.wire.Answers;
import stepinto.probe.wire.Limits;
import stepinto.probe.wire.Refusal;
import stepinto.probe.wire.Request;

/** The requests that look at a stopped program or change it. */
final class Actions {
    private final Debugging debugging;
    private final Describer describer;
    private final Limits limits;
    private final Fields fields;
    private Stack stack;

    Actions(Debugging debugging, Describer describer, Limits limits) {
        this.debugging = debugging;
        this.describer = describer;
        this.limits = limits;
        fields = new Fields(debugging.values);
    }

    /** The frames to look at from now on. */
    void stoppedAt(Stack stopped) {
        stack = stopped;
    }

    /** The fields of the answer. */
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
        switch (request.action) {
            case "locals":
                return locals(request);
            case "stack":
                return stackPage(request);
            case "threads":
                return threads();
            case "evaluate":
                return evaluate(request);
            case "fields":
                return fieldsOf(request);
            case "run_code":
                return runCode(request);
            case "set_breakpoint":
                return setBreakpoint(request);
            case "remove_breakpoint":
                debugging.table.remove(request.number("number"));
                return new LinkedHashMap<>();
            case "list_breakpoints":
                return new LinkedHashMap<>();
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

    private Map<String, Object> locals(Request request) throws Refusal, EvaluationFailed {
        Variables variables = Variables.of(frame(request));
        int total = variables.values.size();
        int start = Math.min(Math.max(request.number("start"), 0), total);
        Map<String, Object> answer =
                describer.values(variables.values.subList(start, total), start, total);
        Answers.addNotes(answer, variables.notes);
        return answer;
    }

    private Map<String, Object> stackPage(Request request) {
        int start = Math.max(request.number("start"), 0);
        return describer.stack(stack, Math.min(start, stack.size()));
    }

    private Value valueOf(Request request) throws Refusal, EvaluationFailed {
        String expression = request.text("expression");
        return debugging.evaluator.evaluate(expression, frame(request), request.millisLeft());
    }

    private Map<String, Object> evaluate(Request request) throws Refusal, EvaluationFailed {
        Value value = valueOf(request);
        Rendered text = debugging.values.render(value, Math.max(request.number("start"), 0));
        Map<String, Object> answer = new LinkedHashMap<>();
        Named named = new Named(request.text("expression"), null, value);
        answer.put("values", Collections.singletonList(describer.value(named, text)));
        if (text.nextStart != Rendered.END) {
            answer.put("next_start", text.nextStart);
        }
        return answer;
    }

    private Map<String, Object> fieldsOf(Request request) throws Refusal, EvaluationFailed {
        Value value = valueOf(request);
        int start = Math.max(request.number("start"), 0);
        Fields.Page page = fields.of(value, start, limits.maxValues);
        return describer.values(page.values, start, page.size);
    }

    private Map<String, Object> runCode(Request request) throws Refusal, EvaluationFailed {
        debugging.evaluator.runCode(request.text("code"), frame(request), request.millisLeft());
        return new LinkedHashMap<>();
    }

    private Map<String, Object> setBreakpoint(Request request) throws Refusal {
        List<String> notes = new ArrayList<>();
        Breakpoint point = debugging.table.add(request.arguments, notes);
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("breakpoints", debugging.table.describe(Collections.singletonList(point)));
        answer.put("notes", notes);
        return answer;
    }

    /** Every thread that is in the program's code, and where; the current one first. */
    private Map<String, Object> threads() {
        List<Object> shown = new ArrayList<>();
        ThreadReference current = stack == null ? debugging.mainThread : stack.thread;
        shown.add(thread(current, true));
        for (ThreadReference thread : debugging.diagnosis.ownThreads(debugging.mainThread)) {
            if (!thread.equals(current)) {
                shown.add(thread(thread, false));
            }
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("threads", shown);
        return answer;
    }

    private Map<String, Object> thread(ThreadReference thread, boolean current) {
        Map<String, Object> fields = new LinkedHashMap<>();
        Stack frames = new Stack(thread, debugging.program);
        fields.put("name", thread.name());
        fields.put("current", current);
        fields.put("doing", debugging.diagnosis.doing(thread));
        int end = Math.min(frames.size(), limits.maxFrames);
        fields.put("frames", describer.frames(frames, 0, end));
        return fields;
    }
}
